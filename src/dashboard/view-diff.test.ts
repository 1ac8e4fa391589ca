import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ResourceView } from './page-protocol';
import { apply, diff, emptyView } from './view-diff';

const name = fc.constantFrom('a', 'b', 'c', 'd', '__proto__');
const holder = fc.record({ name });
const slot = fc.record({ slot: name, state: fc.constantFrom('free' as const, 'held' as const) });
const waiter = fc.record({ ticketId: name, waiter: holder, priorityKey: fc.nat(3), sinceMs: fc.nat(3) });
const hold = fc.record(
  { runId: name, slot: name, holder, fromMs: fc.nat(3), toMs: fc.nat(3) },
  { requiredKeys: ['runId', 'slot', 'holder', 'fromMs'] },
);

const view: fc.Arbitrary<ResourceView> = fc.record({
  resource: fc.constant('gpu'),
  head: fc.nat(2).map((held) => ({ ...emptyView('gpu').head, held })),
  slots: fc.uniqueArray(slot, { selector: ({ slot }) => slot }),
  waiters: fc.uniqueArray(waiter, { selector: ({ ticketId }) => ticketId }),
  holds: fc.uniqueArray(hold, { selector: ({ runId }) => runId }),
  load: fc.uniqueArray(fc.record({ atMs: fc.nat(20), held: fc.nat(3) }), { selector: ({ atMs }) => atMs }),
});

/** As it comes out at the other end. */
function sent<T>(value: T): T {
  return JSON.parse(JSON.stringify(value));
}

test('whatever changes, the page ends up with what the server has', () => {
  fc.assert(
    fc.property(view, view, (before, after) => {
      const patch = diff(before, after);
      assert.deepEqual(sent(patch ? apply(before, sent(patch)) : before), sent(after));
    }),
    { numRuns: 2_000 },
  );
});

test('what did not change is not sent, and keeps its identity', () => {
  const held = { slot: '0', state: 'held' as const };
  const before = { ...emptyView('gpu'), slots: [held, { slot: '1', state: 'free' as const }] };
  assert.equal(diff(before, sent(before)), undefined);

  const after = { ...before, slots: [held, { slot: '1', state: 'drained' as const }] };
  const patch = diff(before, after);
  assert.deepEqual(sent(patch), { resource: 'gpu', slots: { put: [{ slot: '1', state: 'drained' }] } });
  assert.ok(patch);
  assert.equal(apply(before, patch).slots[0], held);
  assert.equal(apply(before, patch).waiters, before.waiters);
});

test('a queue that moves up sends who left and who came, not everybody', () => {
  const waiters = Array.from({ length: 100 }, (_, index) => ({
    ticketId: `t${index}`,
    waiter: { name: `w${index}` },
    priorityKey: 3,
    sinceMs: index,
  }));
  const before = { ...emptyView('gpu'), waiters: waiters.slice(0, 99) };
  const after = { ...emptyView('gpu'), waiters: waiters.slice(1) };
  assert.deepEqual(diff(before, after)?.waiters, { gone: ['t0'], put: [waiters[99]] });
});
