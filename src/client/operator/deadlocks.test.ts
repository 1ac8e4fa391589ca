import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findDeadlocks } from './deadlocks';
import type { Inspection } from './inspection';

type Pool = Pick<Inspection, 'resource' | 'slots' | 'waiters'>;

/** @param holders of each slot: a Workflow, `client`, `free`, `drained` or `paced` @param waiters a Workflow each, or `client` */
function pool(resource: string, holders: string[], waiters: string[]): Pool {
  const since = new Date(0);
  return {
    resource,
    slots: holders.map((who, slot) => {
      if (who === 'free') return { slot: String(slot), state: 'free' };
      const holder = who === 'client' ? { identity: '1@host' } : { workflowId: who, runId: `run of ${who}` };
      const permit = { workflowId: `permit:${resource}:${slot}`, runId: 'r', holder, since };
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

const cycles = (...pools: Pool[]) =>
  findDeadlocks(pools).map((steps) =>
    steps.map(({ workflowId, waitsFor, heldBy }) => `${workflowId} waits for ${waitsFor} of ${heldBy}`),
  );

test('two that hold what the other one waits for', () => {
  assert.deepEqual(cycles(pool('a', ['A'], ['B']), pool('b', ['B'], ['A'])), [
    ['B waits for a of A', 'A waits for b of B'],
  ]);
});

test('three in a ring, and one behind them that is in no cycle itself', () => {
  const found = cycles(pool('a', ['A'], ['C', 'D']), pool('b', ['B'], ['A']), pool('c', ['C'], ['B']));
  assert.deepEqual(found, [['C waits for a of A', 'A waits for b of B', 'B waits for c of C']]);
});

test('one that waits for what it holds itself', () => {
  assert.deepEqual(cycles(pool('a', ['A', 'A'], ['A'])), [['A waits for a of A']]);
});

test('no cycle while somebody may give back: another holder, a client, a free slot, a turn', () => {
  const b = pool('b', ['B'], ['A']);
  assert.deepEqual(cycles(pool('a', ['A', 'C'], ['B']), b), []);
  assert.deepEqual(cycles(pool('a', ['A', 'client'], ['B']), b), []);
  assert.deepEqual(cycles(pool('a', ['A', 'free'], ['B']), b), []);
  assert.deepEqual(cycles(pool('a', ['A', 'paced'], ['B']), b), [], 'its pace ends');
  assert.deepEqual(cycles(pool('a', ['client'], ['client'])), [], 'a process has many callers');
  const called = pool('a', ['A'], ['B']);
  for (const waiter of called.waiters) waiter.turn = '0';
  assert.deepEqual(cycles(called, b), []);
  assert.deepEqual(cycles(pool('a', ['A'], ['B']), pool('b', ['B'], [])), [], 'a convoy');
});

test('a full pool is in a cycle only if all that hold it are', () => {
  const found = cycles(pool('a', ['A', 'C'], ['B', 'D']), pool('b', ['B', 'D'], ['A', 'C']));
  assert.equal(found.length, 1);
  assert.equal(found[0]?.length, 2);
});
