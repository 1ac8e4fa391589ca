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

test('a pause with an end ends by itself, shortens no other, and is shortened by none', () => {
  const override = new CapacityOverride();
  override.change({ slots: 3, capacity: 2 }, 100);
  const paused = override.change({ slots: 3, pauseUntilMs: 5_000, reason: '429' }, 200);
  assert.deepEqual(paused, {
    version: 200,
    slots: 3,
    capacity: 2,
    paused: true,
    pausedUntilMs: 5_000,
    reason: '429',
  });
  assert.equal(override.endsAtMs, 5_000);
  for (const pauseUntilMs of [4_000, 5_000, 100]) {
    assert.equal(override.change({ slots: 3, pauseUntilMs, reason: 'another' }, 300), paused);
  }
  assert.equal(override.change({ slots: 3, pauseUntilMs: 6_000 }, 300).pausedUntilMs, 6_000);
  assert.equal(override.change({ slots: 3, capacity: 1 }, 400).pausedUntilMs, 6_000, 'a resize leaves it');
  override.expire(5_999);
  assert.ok(!override.isInUse('0'));
  override.expire(6_000);
  assert.deepEqual(override.current, { version: 6_000, slots: 3, capacity: 1, paused: false });

  override.change({ slots: 3, paused: true }, 7_000);
  assert.equal(override.endsAtMs, Number.POSITIVE_INFINITY);
  const byOperator = override.change({ slots: 3, pauseUntilMs: 9_000 }, 7_100);
  assert.equal(byOperator.pausedUntilMs, undefined, "an operator's pause has no end");
  override.change({ slots: 3, paused: false }, 7_200);
  override.change({ slots: 3, pauseUntilMs: 9_000 }, 7_300);
  assert.equal(override.change({ slots: 3, paused: true }, 7_400).pausedUntilMs, undefined);
  override.change({ slots: 3, paused: false, capacity: 3 }, 7_500);
  assert.equal(override.current, undefined);
  assert.equal(override.change({ slots: 3, pauseUntilMs: 7_000 }, 7_600).paused, false, 'it is over already');
  assert.equal(override.current, undefined);
});
