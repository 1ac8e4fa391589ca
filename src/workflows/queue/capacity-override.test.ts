import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ticket } from '../../shared/protocol';
import { CapacityOverride } from './capacity-override';

function ticket(slots: Ticket['slots']): Ticket {
  return { id: 't', waiter: { workflowId: 'w', runId: 'r' }, slots, sinceMs: 0 };
}

test('nothing is set at first: every slot is in use, and a waiter wants what it names', () => {
  const override = new CapacityOverride();
  assert.equal(override.current, undefined);
  assert.ok(override.isInUse('7'));
  assert.deepEqual(
    ['0', '1', '2'].map((slot) => override.wants(ticket(2), slot)),
    [true, true, false],
  );
});

test('a pause and a capacity are set and end by themselves', () => {
  const override = new CapacityOverride();
  const sized = override.change({ slots: 3, capacity: 2, reason: 'small' }, 100);
  assert.deepEqual(sized, { version: 100, slots: 3, capacity: 2, paused: false, reason: 'small' });
  assert.deepEqual(override.change({ slots: 3, paused: true }, 100), {
    version: 101,
    slots: 3,
    capacity: 2,
    paused: true,
  });
  assert.ok(!override.isInUse('0'));
  assert.deepEqual(override.change({ slots: 3, paused: false }, 50), {
    version: 102,
    slots: 3,
    capacity: 2,
    paused: false,
  });
  assert.deepEqual(
    ['0', '1', '2'].map((slot) => override.isInUse(slot)),
    [true, true, false],
  );
  assert.deepEqual(override.change({ slots: 3, capacity: 3 }, 200), { version: 200, slots: 3, paused: false });
  assert.equal(override.current, undefined);
});

test('added slots are for waiters that count slots', () => {
  const override = new CapacityOverride();
  override.change({ slots: 3, capacity: 5 }, 1);
  assert.deepEqual(override.slots(), ['0', '1', '2', '3', '4']);
  assert.ok(override.wants(ticket(3), '4') && override.isInUse('4') && !override.isDeployed('4'));
  assert.ok(!override.wants(ticket(3), '5'));
  assert.ok(!override.wants(ticket(['a']), '4'));
});

test('of named slots the first stay in use', () => {
  const override = new CapacityOverride();
  override.change({ slots: ['b', 'a'], capacity: 1 }, 1);
  assert.deepEqual([override.isInUse('b'), override.isInUse('a'), override.isDeployed('a')], [true, false, true]);
});
