import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Ticket } from '../../shared/protocol';
import { handOn, readHandedOn, shown } from './handed-on';
import type { QueueCommand } from './queue-command';
import { QueueState } from './queue-state';

const NOW_MS = 1_795_000_000_000;

function ticket(fields: object = {}): Ticket {
  const id = randomUUID();
  return { id, waiter: { workflowId: `w-${id}`, runId: randomUUID() }, slots: 2, sinceMs: 1, ...fields };
}

/** The state of a next run that was handed this on. */
function restored(view: unknown): QueueState {
  const wire = JSON.parse(JSON.stringify({ view }));
  return new QueueState(readHandedOn('pool', wire).view);
}

/** What goes over the wire drops what is absent. */
const plain = (value: unknown) => JSON.parse(JSON.stringify(value));

test('a run hands everything on, and the names of a list once', () => {
  const slots = ['gpu-a', 'gpu-b'];
  const state = new QueueState();
  const waiters = [1, 2, 3].map((sinceMs) => ticket({ slots: [...slots], sinceMs, priorityKey: 2, preempt: true }));
  for (const waiter of [...waiters, ticket({ fairnessKey: 'k' })]) assert.ok(state.enqueue(waiter));
  state.setOverride({ slots: ['gpu-a', 'gpu-b', 'gpu-c'], capacity: 2, reason: 'r' }, NOW_MS);
  const answer = ({ slot }: QueueCommand & { slot: string }) => {
    state.preemptible({ slot, runId: randomUUID(), graceMs: 1_000, priorityKey: 4 }, NOW_MS);
    state.probed(slot, slot === 'gpu-a', NOW_MS);
  };
  for (const command of state.next(NOW_MS)) if (command.do === 'probe') answer(command);
  for (const command of state.next(NOW_MS)) {
    if (command.do === 'drain') state.claimed(command.slot, randomUUID(), NOW_MS);
  }
  const before = state.view();
  assert.deepEqual(
    new Set(before.slots.map(([, { at }]) => at)),
    new Set(['held', 'offered', 'drained']),
    JSON.stringify(before.slots),
  );
  const wire = JSON.stringify(shown(before));
  assert.equal(wire.split('"gpu-a","gpu-b"]').length, 2, wire);
  assert.deepEqual(plain(restored(shown(before)).view()), plain(before));
  const [first, second] = waiters.map(({ id }) => id) as [string, string];
  state.doubt([second]);
  const refused = ticket();
  state.outrank([first]);
  const unanswered = new Map([...waiters.slice(0, 1), refused].map((it) => [it.id, it]));
  const handedOn = readHandedOn('pool', plain(handOn(state, unanswered, [second, 'left'])));
  assert.deepEqual(
    plain(handedOn),
    plain({
      view: before,
      unanswered: [first],
      inDoubt: [second],
      outranked: [first],
      unasked: [second],
      refused: [{ id: refused.id, waiter: refused.waiter }],
    }),
  );
});

test('the next run of a queue gives no turn to a ticket that is to give way', () => {
  const state = new QueueState();
  const outranked = ticket({ inherits: ['pool~set'], givesWay: true });
  state.enqueue(outranked);
  state.next(NOW_MS);
  for (const slot of ['0', '1']) state.probed(slot, false, NOW_MS);
  state.inherit('pool~set', 1);
  const handedOn = readHandedOn('pool', plain(handOn(state)));
  const next = new QueueState(handedOn.view);
  next.outrank(handedOn.outranked);
  assert.deepEqual(plain(next.next(NOW_MS)), [{ do: 'give-way', ticket: plain(outranked) }]);
});

test('a run hands on as many of its refusals as fit, and the next run sends none that is malformed', () => {
  const { refused } = readHandedOn(
    'pool',
    plain({ refused: [ticket(), { id: 'x', waiter: { workflowId: '\ud800' } }, ticket(), null] }),
  );
  assert.equal(refused.length, 2);
  const state = new QueueState();
  const slots = Array.from({ length: 200 }, (_, n) => `gpu-node-${n}`);
  const waiter = { workflowId: 'w'.repeat(900), runId: randomUUID() };
  while (state.enqueue(ticket({ slots, waiter })));
  const unanswered = new Map(Array.from({ length: 1_000 }, () => ticket({ slots, waiter })).map((it) => [it.id, it]));
  const input = handOn(state, unanswered);
  const bytes = JSON.stringify(input).length;
  assert.ok(bytes < 2 * 1_024 * 1_024, `${bytes} bytes`);
  const handedOn = input.refused?.length ?? 0;
  assert.ok(handedOn > 100 && handedOn < 1_000, `${handedOn} refusals`);
});

test('a slot of which the next run can make nothing is unknown, and the queue asks', () => {
  const waiter = ticket();
  const runId = randomUUID();
  const state = restored({
    tickets: [
      waiter,
      ticket({ waiter: { workflowId: '\ud800' } }),
      ticket({ waiter: { workflowId: 'w', runId: 'x' } }),
    ],
    slots: [
      ['0', { at: 'held', sinceMs: 1, probeAtMs: 2 }],
      ['1', { at: 'offered', ticketId: waiter.id, untilMs: 3 }],
      ['2', { at: 'drained', runId, renewAtMs: 4 }],
      ['3', { at: 'probing' }], // a bug: nobody answers the next run
      ['4', { at: 'draining', closed: [] }],
      ['5', { at: 'of a later version' }],
      // This would end the worker, which others share.
      ['\ud800', { at: 'free' }],
      ['6', { at: 'drained', runId: '\ud800', renewAtMs: 4 }],
      ['7', { at: 'held', sinceMs: 1, probeAtMs: 2, holder: { runId: '\ud800', graceMs: 1, priorityKey: 1 } }],
    ],
    override: { version: 1, slots: ['\ud800'], paused: true },
  });
  const { tickets, slots, override } = plain(state.view());
  assert.deepEqual(
    [tickets, Object.keys(Object.fromEntries(slots)), override],
    [[plain(waiter)], ['0', '1', '2'], undefined],
  );
});

test('a run that is handed nothing knows nothing', () => {
  assert.deepEqual(plain(restored(undefined).view()), { tickets: [], slots: [], shares: [] });
});

test('the turns that have brought no word, and what is reserved for an accumulator, outlast the run', () => {
  const waiter = ticket({ permits: 2, kept: 0 });
  const offered = { at: 'offered', ticketId: waiter.id, untilMs: NOW_MS };
  const slots = [
    ['0', { ...offered, unheard: { turns: 2, first: 'w' } }],
    ['1', { ...offered, reserved: true }],
  ];
  assert.deepEqual(plain(restored({ tickets: [waiter], slots }).view().slots), slots);
});

test('a full line hands all its tickets on, also when priorities were inherited meanwhile', () => {
  const state = new QueueState();
  const key = 'openai~key:tenant';
  const workflowId = 'w'.repeat(90);
  const waiting = (n: number) =>
    ticket({ slots: 20, inherits: [key], waiter: { workflowId: `${workflowId}-${n}`, runId: randomUUID() } });
  let taken = 0;
  while (state.enqueue(waiting(taken))) taken++;
  assert.ok(taken < 10_000, 'the bytes are the limit');
  state.inherit(key, 1);
  const input = plain(handOn(state));
  const next = new QueueState(readHandedOn('openai', input).view);
  assert.equal(next.view().tickets.length, taken);
});

test('the names of the slots are one list, in whatever order callers give them', () => {
  const state = new QueueState();
  const names = Array.from({ length: 50 }, (_, n) => `gpu-${n}`);
  for (let n = 0; n < 1_000; n++) {
    const by = n % 50;
    const slots = [...names.slice(by), ...names.slice(0, by)];
    [slots[n % 7], slots[49]] = [slots[49] ?? '', slots[n % 7] ?? ''];
    assert.ok(state.enqueue(ticket({ slots })), `the line is full with ${n}`);
  }
  assert.equal(shown(state.view()).lists?.length, 1);
});
