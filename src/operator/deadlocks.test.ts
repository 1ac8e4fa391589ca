import assert from 'node:assert/strict';
import { test } from 'node:test';
import { childrenBehindParents, findDeadlocks, lastTaken } from './deadlocks';
import type { Inspection } from './inspection';

type Seen = Pick<Inspection, 'resource' | 'slots' | 'waiters'>;

/** @param holders of each slot: a Workflow, `client`, `free`, `drained` or `paced` @param waiters a Workflow each, or `client` */
function seen(resource: string, holders: string[], waiters: string[]): Seen {
  const since = new Date(0);
  return {
    resource,
    slots: holders.map((who, slot) => {
      if (who === 'free') return { slot: String(slot), state: 'free' };
      const holder = who === 'client' ? { identity: '1@host' } : { workflowId: who, runId: `run of ${who}` };
      const permit = { workflowId: `permit:${resource}:${slot}`, runId: 'r', taskQueue: 'permits', holder, since };
      return { slot: String(slot), state: who === 'drained' || who === 'paced' ? who : 'held', permit };
    }),
    waiters: waiters.map((who, place) => ({
      place,
      ticketId: `t${place}`,
      workflowId: who,
      runId: `run of ${who}`,
      ...(who === 'client' && { identity: '1@host' }),
      priorityKey: 3,
      since,
    })),
  };
}

test('children that wait behind their parents are found if no other permit can come free', () => {
  const children = (holders: string[], ...waiters: [child: string, parent?: string][]) => {
    const look = seen(
      'gpu',
      holders,
      waiters.map(([child]) => child),
    );
    const told = look.waiters.map((waiter, nth) => ({ ...waiter, parent: waiters[nth]?.[1] as string }));
    return childrenBehindParents({ ...look, waiters: told }).map(({ parent, child }) => `${child} of ${parent}`);
  };
  assert.deepEqual(children(['p'], ['c', 'p']), ['c of p']);
  assert.deepEqual(children(['p', 'q'], ['c', 'p'], ['d', 'q']), ['c of p', 'd of q']);
  assert.deepEqual(children(['p', 'drained'], ['c', 'p']), ['c of p']);
  for (const other of ['free', 'paced', 'client', 'x']) assert.deepEqual(children(['p', other], ['c', 'p']), [], other);
  assert.deepEqual(children(['p'], ['c', 'q']), []);
  assert.deepEqual(children(['p'], ['c']), []);
});

const cycles = (...resources: Seen[]) =>
  findDeadlocks(resources).map((steps) =>
    steps.map(({ workflowId, waitsFor, heldBy }) => `${workflowId} waits for ${waitsFor} of ${heldBy}`),
  );

test('two that hold what the other one waits for', () => {
  assert.deepEqual(cycles(seen('a', ['A'], ['B']), seen('b', ['B'], ['A'])), [
    ['B waits for a of A', 'A waits for b of B'],
  ]);
});

test('three in a ring, and one behind them that is in no cycle itself', () => {
  const found = cycles(seen('a', ['A'], ['C', 'D']), seen('b', ['B'], ['A']), seen('c', ['C'], ['B']));
  assert.deepEqual(found, [['C waits for a of A', 'A waits for b of B', 'B waits for c of C']]);
});

test('of the permits that keep a cycle shut, the last that was taken is named, and none of another holder', () => {
  const resources = [seen('a', ['A'], ['B']), seen('b', ['B'], ['A']), seen('c', ['B'], [])];
  for (const [at, { slots }] of resources.entries()) {
    for (const { permit } of slots) if (permit) permit.since = new Date(at);
  }
  const [steps = []] = findDeadlocks(resources);
  const { resource, slot, permit } = lastTaken(steps, resources) ?? assert.fail();
  assert.deepEqual([resource, slot, permit.holder.workflowId], ['b', '0', 'B']);
});

test('one that waits for what it holds itself', () => {
  assert.deepEqual(cycles(seen('a', ['A', 'A'], ['A'])), [['A waits for a of A']]);
});

test('no cycle while somebody may give back: another holder, a client, a free slot, a turn', () => {
  const b = seen('b', ['B'], ['A']);
  assert.deepEqual(cycles(seen('a', ['A', 'C'], ['B']), b), []);
  assert.deepEqual(cycles(seen('a', ['A', 'client'], ['B']), b), []);
  assert.deepEqual(cycles(seen('a', ['A', 'free'], ['B']), b), []);
  assert.deepEqual(cycles(seen('a', ['A', 'paced'], ['B']), b), [], 'its pace ends');
  assert.deepEqual(cycles(seen('a', ['client'], ['client'])), [], 'a process has many callers');
  const called = seen('a', ['A'], ['B']);
  for (const waiter of called.waiters) waiter.turn = '0';
  assert.deepEqual(cycles(called, b), []);
  assert.deepEqual(cycles(seen('a', ['A'], ['B']), seen('b', ['B'], [])), [], 'a convoy');
});

test('a full resource is in a cycle only if all that hold it are', () => {
  const found = cycles(seen('a', ['A', 'C'], ['B', 'D']), seen('b', ['B', 'D'], ['A', 'C']));
  assert.equal(found.length, 1);
  assert.equal(found[0]?.length, 2);
});
