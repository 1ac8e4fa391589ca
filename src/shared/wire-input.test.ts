import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { slotNames } from './slots';
import { offersSlot, readLeaseMs, readTurn } from './wire-input';

const TURN = { queueId: 'permit-queue:pool', ticketId: 't', slot: '0' };

test('a turn is read field by field, and what else it has is left out', () => {
  assert.deepEqual(readTurn(TURN), TURN);
  assert.deepEqual(readTurn({ ...TURN, capacity: 5, more: { deep: 1 } }), { ...TURN, capacity: 5 });
  const sign = { queueId: 'permit-queue:a:b', ticketId: 't'.repeat(100), waiting: true };
  assert.deepEqual(readTurn(sign), sign);
  assert.deepEqual(readTurn({ ...TURN, waiting: 'yes', capacity: '5', full: 1 }), TURN);
  assert.deepEqual(readTurn({ ...TURN, full: true }), { ...TURN, full: true });
});

test('a renewal may ask for another lease, if that is one', () => {
  assert.equal(readLeaseMs({ leaseMs: 5_000 }), 5_000);
  for (const leaseMs of [0, -1, '5', Number.NaN, Number.POSITIVE_INFINITY, 1e12, null]) {
    assert.equal(readLeaseMs({ leaseMs }), undefined);
  }
  assert.equal(readLeaseMs(undefined), undefined);
});

const BAD: [string, unknown][] = [
  ['nothing', undefined],
  ['null', null],
  ['a number', 5],
  ['text', 'x'],
  ['no fields', {}],
  ['no queue', { ticketId: 't', slot: '0' }],
  ['a queue that is none', { ...TURN, queueId: 'train-7' }],
  ['a queue of another type', { ...TURN, queueId: {} }],
  ['an endless queue', { ...TURN, queueId: `permit-queue:${'w'.repeat(1_000)}` }],
  ['a ticket of another type', { ...TURN, ticketId: 5 }],
  ['a ticket without an ID', { ...TURN, ticketId: '' }],
  ['an endless ticket', { ...TURN, ticketId: 't'.repeat(101) }],
  ['a slot that is a number', { ...TURN, slot: 7 }],
  ['a slot that is null', { ...TURN, slot: null }],
  ['a slot that is an object', { ...TURN, slot: { toString: 1, valueOf: 1 } }],
];
for (const [what, value] of BAD) {
  test(`${what} is no turn`, () => assert.equal(readTurn(value), undefined));
}

const offers = (slot: string, slots: number | string[], capacity?: number) =>
  offersSlot({ ...TURN, slot, capacity }, slots);

test('counted slots: its own, in canonical form, and those that the turn says were added', () => {
  assert.ok(offers('0', 1));
  for (const slot of ['1', '7', '-1', '', '00', '0.0', '1e0', ' 0', 'a\nb', 'a:b', 's'.repeat(2_000)]) {
    assert.equal(offers(slot, 1), false, slot.slice(0, 10));
  }
  assert.ok(offers('4', 3, 5));
  assert.equal(offers('5', 3, 5), false);
  for (const slot of ['-1', '03', 'a:b', '']) assert.equal(offers(slot, 3, 5), false);
  assert.ok(offers('999', 3, 1e9));
  assert.equal(offers('1000', 3, 1e9), false, 'no pool has more than 1,000 slots');
  assert.equal(offers('3', 3, -5), false);
});

test('named slots: of its list only, whatever the turn says was added', () => {
  assert.ok(offers('gpu-a', ['gpu-a']));
  for (const slot of ['gpu-zzz', '0', 'length', '__proto__']) assert.equal(offers(slot, ['gpu-a'], 5), false);
});

test('a turn without a slot offers none', () => {
  assert.equal(offersSlot({ queueId: 'q', ticketId: 't' }, 3), false);
});

test('whatever a turn says, no more slots can be claimed than the larger of the two capacities', () => {
  const anySlot = fc.oneof(fc.string(), fc.integer({ min: -5, max: 1_200 }).map(String));
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      fc.option(fc.integer(), { nil: undefined }),
      anySlot,
      (count, capacity, slot) => {
        const most = Math.min(1_000, Math.max(count, capacity ?? 0));
        assert.equal(offers(slot, count, capacity), slotNames(most).includes(slot));
      },
    ),
  );
});
