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
  return new QueueState(readHandedOn('pool', wire, NOW_MS).view);
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
});

test('of what a stranger hands on, nothing stays for ever, and nothing unsound', () => {
  const far = 8e15;
  const waiter = ticket();
  const forged: [string, unknown][] = [
    ['0', { at: 'held', sinceMs: far, probeAtMs: far }],
    ['1', { at: 'offered', ticketId: waiter.id, untilMs: far }],
    ['2', { at: 'offered', ticketId: waiter.id, untilMs: far }],
    ['3', { at: 'offered', ticketId: 'nobody', untilMs: far }],
    ['4', { at: 'drained', runId: 'no UUID', renewAtMs: far }],
    ['5', { at: 'drained', runId: randomUUID(), renewAtMs: far }],
    ['6', { at: 'probing' }],
    ['7', { at: 'draining', closed: [] }],
    ['8', { at: 'bogus' }],
    ['a:b', { at: 'free' }],
    ['\ud800', { at: 'free' }],
    ['9', { at: 'held', runId: 5, holder: { runId: 'x', untilMs: far }, answersByMs: 'x' }],
  ];
  const state = restored({
    tickets: [
      waiter,
      5,
      ticket({ waiter: { workflowId: '\ud800' } }),
      ticket({ waiter: { workflowId: 'w', runId: 'x' } }),
      ticket({ slots: undefined, list: 'length' }),
      ticket({ slots: undefined, list: 0 }),
    ],
    lists: [['a:b']],
    slots: forged,
    shares: [
      [3, 1e300, []],
      [3, 0, [['', 1e300], ['k'.repeat(65), 1], [5, 1], 'x']],
    ],
    override: { version: 1, slots: 2, capacity: 9e9, paused: true },
  });
  const { tickets, slots, shares, override } = plain(state.view());
  assert.deepEqual([tickets, shares, override], [[plain(waiter)], [[3, 0, []]], undefined]);
  assert.deepEqual(Object.keys(Object.fromEntries(slots)), ['0', '1', '5', '9']);
  for (const [slot, { probeAtMs, untilMs, renewAtMs, holder, runId }] of slots) {
    for (const ms of [probeAtMs, untilMs, renewAtMs]) assert.ok(!(ms > NOW_MS + 20 * 60_000), `${slot}: ${ms}`);
    assert.equal(holder, undefined);
    assert.ok(slot === '5' || runId === undefined);
  }
  for (const junk of [undefined, null, 5, 'x', [], { tickets: 5, lists: 5, slots: 7, shares: 'x', override: [] }]) {
    assert.deepEqual(plain(restored(junk).view()), { tickets: [], slots: [], shares: [] });
  }
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
  const input = plain(handOn(state.view(), [], []));
  const next = new QueueState(readHandedOn('openai', input, NOW_MS).view);
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
