import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
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
  NO_OBJECTS,
  ODD_TICKETS,
  soundAnswer,
  soundTicket,
} from '../../test/support/malformed';
import { isRaw } from '../../test/support/strangers';
import {
  isOverride,
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
    const { junk: _junk, answer: _answer, whenFull: _whenFull, ...known } = decoded(value);
    assert.deepEqual(JSON.parse(JSON.stringify(readTicket('pool', decoded(value)))), JSON.parse(JSON.stringify(known)));
    assert.ok(bytesOf(readTicket('pool', decoded(value))) < 1_000);
  }
});

test('a reason is cut to what a memo can take', () => {
  assert.equal(readReason({ reason: 'r'.repeat(1_900_000) })?.length, 1_000);
});
