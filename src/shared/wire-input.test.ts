import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  BAD_ANSWERS,
  BAD_CLOSINGS,
  BAD_DECLINED,
  BAD_HOLDERS,
  BAD_LEASES,
  BAD_MISSED,
  BAD_ORDERS,
  BAD_REASONS,
  BAD_TICKETS,
  BAD_TURNS,
  type ForgedTurn,
  NO_COUNTED_SLOTS,
  NO_NAMED_SLOTS,
  NO_OBJECTS,
  ODD_TICKETS,
  soundAnswer,
  soundTicket,
} from '../../test/support/malformed';
import { isRaw } from '../../test/support/strangers';
import { slotNames } from './permit-id';
import {
  isOverride,
  offersSlot,
  readClosing,
  readDeclined,
  readHolder,
  readInherit,
  readLeaseMs,
  readMissed,
  readPreempt,
  readPreemptible,
  readPriorityQuestion,
  readReason,
  readTicket,
  readTurn,
} from './wire-input';

const TURN = { queueId: 'permit-queue:pool', ticketId: 't', slot: '0' };

test('a turn is read field by field, and what else it has is left out', () => {
  assert.deepEqual(readTurn(TURN), TURN);
  assert.deepEqual(readTurn({ ...TURN, capacity: 5, more: { deep: 1 } }), { ...TURN, capacity: 5 });
  const sign = { queueId: 'permit-queue:a:b', ticketId: 't'.repeat(100), waiting: true };
  assert.deepEqual(readTurn(sign), sign);
  assert.deepEqual(readTurn({ ...TURN, waiting: 'yes', capacity: '5', full: 1 }), TURN);
  assert.deepEqual(readTurn({ ...TURN, full: true }), { ...TURN, full: true });
  assert.deepEqual(readTurn({ ...TURN, others: 3 }), { ...TURN, others: 3 });
  for (const others of [0, '3', { deep: 1 }]) assert.deepEqual(readTurn({ ...TURN, others }), TURN);
});

/** As a Workflow would have it from its converter. */
const decoded = (sent: unknown) => (isRaw(sent) ? JSON.parse(String(sent.data)) : sent);
const bytesOf = (value: unknown) => JSON.stringify(value).length;

for (const [what, read, sound, malformed] of [
  ['ticket', (it) => readTicket('pool', it), soundTicket(), BAD_TICKETS],
  ['missed turn', (it) => readMissed('pool', it), { ticket: soundTicket(), slot: '0' }, BAD_MISSED],
  ['declined turn', readDeclined, { ticketId: 't' }, BAD_DECLINED],
  ['closing', readClosing, { slot: '0', runId: randomUUID() }, BAD_CLOSINGS],
  ['answer of a permit', readPreemptible, soundAnswer(), BAD_ANSWERS],
  ['request to give way', readPreempt, { priorityKey: 1 }, [{ priorityKey: 'x' }]],
  ['order of an operator', (it) => isOverride('pool', it) || undefined, { slots: 1, capacity: 1 }, BAD_ORDERS],
  ['turn', readTurn, TURN, Object.values(BAD_TURNS).map((forge) => forge(TURN))],
  [
    'inherited priority',
    readInherit,
    { resource: 'r', priorityKey: 1 },
    [{ resource: 'r' }, { resource: ' ', priorityKey: 1 }],
  ],
  ['question for a priority', readPriorityQuestion, { resource: 'r' }, [{ resource: 7 }, { resource: '' }]],
  ['holder', readHolder, { identity: 'x' }, BAD_HOLDERS],
  ['lease of a renewal', readLeaseMs, { leaseMs: 5_000 }, BAD_LEASES.map((leaseMs) => ({ leaseMs }))],
  ['reason', readReason, { reason: 'x' }, BAD_REASONS.map((reason) => ({ reason }))],
] as [string, (value: unknown) => unknown, object, unknown[]][]) {
  test(`a malformed ${what} is left out, and a sound one is read`, () => {
    assert.ok(read(sound));
    for (const value of [undefined, ...NO_OBJECTS, ...malformed]) {
      assert.equal(read(decoded(value)), undefined, JSON.stringify(value)?.slice(0, 200));
    }
  });
}

test('of an odd ticket, only what a queue knows is kept', () => {
  for (const value of ODD_TICKETS) {
    const { junk: _junk, answer: _answer, ...known } = decoded(value);
    assert.deepEqual(JSON.parse(JSON.stringify(readTicket('pool', decoded(value)))), JSON.parse(JSON.stringify(known)));
    assert.ok(bytesOf(readTicket('pool', decoded(value))) < 1_000);
  }
});

test('a reason is cut to what a memo can take', () => {
  assert.equal(readReason({ reason: 'r'.repeat(1_900_000) })?.length, 1_000);
});

const offers = (slot: string, slots: number | string[], capacity?: number) =>
  offersSlot({ ...TURN, slot, capacity }, slots);

/** Whether a waiter of these slots may claim the slot of a turn that is read; `undefined`: it is read as none. */
const misled = (forge: ForgedTurn, slots: number | string[]) => {
  const turn = readTurn(forge(TURN));
  return turn && offersSlot(turn, slots);
};

test('counted slots: its own, in canonical form, and those that the turn says were added', () => {
  assert.ok(offers('0', 1));
  for (const [what, forge] of Object.entries(NO_COUNTED_SLOTS)) assert.equal(misled(forge, 1), false, what);
  for (const slot of ['1', '0.0', '1e0', ' 0']) assert.equal(offers(slot, 1), false, slot);
  assert.ok(offers('4', 3, 5));
  assert.equal(offers('5', 3, 5), false);
  for (const slot of ['-1', '03', 'a:b', '']) assert.equal(offers(slot, 3, 5), false);
  assert.ok(offers('999', 3, 1e9));
  assert.equal(offers('1000', 3, 1e9), false, 'no pool has more than 1,000 slots');
  assert.equal(offers('3', 3, -5), false);
});

test('named slots: of its list only, whatever the turn says was added', () => {
  assert.ok(offers('gpu-a', ['gpu-a']));
  for (const [what, forge] of Object.entries(NO_NAMED_SLOTS)) assert.equal(misled(forge, ['gpu-a']), false, what);
  for (const slot of ['0', 'length']) assert.equal(offers(slot, ['gpu-a'], 5), false);
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
