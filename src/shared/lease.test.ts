import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Lease } from './lease';

/** A lease of 10 s that was claimed at 1,000 ms on a clock that the test sets. */
function leaseAt(startMs = 1_000) {
  const clock = { nowMs: startMs };
  return { clock, lease: new Lease(10_000, 1_000, Number.POSITIVE_INFINITY, () => clock.nowMs) };
}

test('it counts from when the claim was sent, and its holder is told a tenth before its end', () => {
  const { clock, lease } = leaseAt(1_500);
  assert.equal(lease.leftMs, 9_500);
  assert.equal(lease.noticeMs, 1_000);
  assert.equal(lease.safeMs, 8_500);
  clock.nowMs = 10_000;
  assert.equal(lease.safeMs, 0);
  clock.nowMs = 12_000;
  assert.equal(lease.leftMs, -1_000);
});

test('a renewal counts from when it was sent, not from when its answer came', () => {
  const { clock, lease } = leaseAt();
  clock.nowMs = 5_000;
  lease.renewed(3_000);
  assert.equal(lease.leftMs, 8_000);
});

test('an older renewal that is answered late shortens nothing', () => {
  const { lease } = leaseAt();
  lease.renewed(4_000);
  lease.renewed(2_000);
  assert.equal(lease.leftMs, 13_000);
});

test('a renewal for another duration never brings the end closer, and the next one neither', () => {
  const { clock, lease } = leaseAt();
  lease.renewed(2_000, 60_000);
  assert.equal(lease.leftMs, 61_000);
  clock.nowMs = 5_000;
  lease.renewed(5_000);
  lease.renewed(5_000, 1_000);
  assert.equal(lease.leftMs, 57_000);
  assert.equal(lease.noticeMs, 1_000);
});

test('no renewal makes it longer than maxHold, which counts from the claim', () => {
  const clock = { nowMs: 1_000 };
  const lease = new Lease(10_000, 1_000, 15_000, () => clock.nowMs);
  assert.equal(lease.isLongest, false);
  clock.nowMs = 5_000;
  lease.renewed(5_000);
  assert.deepEqual([lease.leftMs, lease.isLongest], [10_000, false]);
  clock.nowMs = 9_000;
  lease.renewed(9_000, 60_000);
  assert.deepEqual([lease.leftMs, lease.isLongest], [7_000, true]);
});

test('a renewal is due that long after the last one was sent', () => {
  const { clock, lease } = leaseAt();
  clock.nowMs = 2_000;
  assert.equal(lease.dueMs(3_333), 2_333);
  lease.renewed(2_000);
  assert.equal(lease.dueMs(3_333), 3_333);
  clock.nowMs = 9_000;
  assert.ok(lease.dueMs(3_333) < 0, 'overdue');
});

test('whatever was renewed, it ends no later than a lease after the last sending, which is what the server takes at least', () => {
  const anySent = fc.array(fc.nat(100_000), { minLength: 1 });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000_000 }),
      fc.nat(100_000),
      anySent,
      fc.nat(200_000),
      (leaseMs, claimed, sent, nowMs) => {
        const lease = new Lease(leaseMs, claimed, Number.POSITIVE_INFINITY, () => nowMs);
        for (const ms of sent) lease.renewed(ms);
        assert.equal(lease.leftMs, Math.max(claimed, ...sent) + leaseMs - nowMs);
        assert.ok(lease.safeMs < lease.leftMs);
      },
    ),
  );
});
