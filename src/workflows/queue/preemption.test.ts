import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ticket } from '../../shared/protocol';
import { wantsSlot } from '../../shared/slots';
import { type Holder, requests } from './preemption';

const wants = ({ slots }: Ticket, slot: string) => wantsSlot(slots, slot);

function waiter(priorityKey: number, more: Partial<Ticket> = {}): Ticket {
  const waiter = { workflowId: 'w', runId: 'r' };
  return { id: `p${priorityKey}`, waiter, slots: 9, sinceMs: 0, priorityKey, preempt: true, ...more };
}

/** Holders in the slots "0", "1" and so on, each of these priorities; the later ones began later. */
function holders(...priorities: number[]): Holder[] {
  return priorities.map((priorityKey, n) => {
    return { slot: `${n}`, runId: `run${n}`, priorityKey, graceMs: 1, givesWay: false };
  });
}

function asked(waiters: Ticket[], among: Holder[], isSettled = () => true): [slot: string, by: number][] {
  return requests(waiters, among, wants, isSettled).map(({ holder, priorityKey }) => [holder.slot, priorityKey]);
}

test('the holder of the lowest priority gives way, and of equals the youngest', () => {
  assert.deepEqual(asked([waiter(1)], holders(2, 5, 3)), [['1', 1]]);
  assert.deepEqual(asked([waiter(1)], holders(4, 4, 4, 2)), [['2', 1]]);
});

test('only to a strictly higher priority', () => {
  assert.deepEqual(asked([waiter(3)], holders(3, 2, 1)), []);
  assert.deepEqual(asked([waiter(3)], holders(3, 4)), [['1', 3]]);
  const { priorityKey: _, ...unranked } = waiter(0);
  assert.deepEqual(asked([unranked], holders(3, 4)), [['1', 3]], '3 is the default');
});

test('each waiter has one holder, the most urgent waiter first; one that gives way already counts', () => {
  assert.deepEqual(asked([waiter(2), waiter(1)], holders(4, 3, 5)), [
    ['2', 1],
    ['0', 2],
  ]);
  const [first, ...rest] = holders(4, 3, 5);
  const among = [{ ...(first as Holder), givesWay: true }, ...rest];
  assert.deepEqual(asked([waiter(1)], among), []);
  assert.deepEqual(asked([waiter(1), waiter(2)], among), [['2', 2]]);
});

test('only of slots that the waiter would take', () => {
  assert.deepEqual(asked([waiter(1, { slots: 2 })], holders(3, 4, 5)), [['1', 1]]);
  assert.deepEqual(asked([waiter(1, { slots: ['a'] })], holders(3)), []);
});

test('nobody is picked before all have answered', () => {
  assert.deepEqual(
    asked([waiter(1)], holders(3, 4), () => false),
    [],
  );
});
