import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyResource } from '../../../src/shared/key-names';
import { judge } from './checker';
import { covered, union, without } from './checks/intervals';
import type { Acquire, ChaosRecord, Order, Outcome } from './record';
import { at, broken, brokenIn, LIMIT_MS, POOL, sound } from './sound-record';

test('a sound record breaks nothing', () => {
  const verdict = judge(sound(), LIMIT_MS);
  assert.deepEqual(brokenIn(verdict), []);
  assert.equal(verdict.grants, 3);
  assert.equal(verdict.slowestWaitMs, 600);
  assert.deepEqual(verdict.slowest, { acquire: 'other', tookMs: 600 });
  assert.deepEqual(verdict.outcomes, { granted: 3 });
  assert.deepEqual(
    verdict.invariants.map(({ id }) => id),
    ['S1', 'S2', 'S3', 'S4', 'S5', 'S6', 'S7', 'S8', 'L1', 'L2', 'L3', 'L4', 'L5', 'O1', 'O2', 'O3', 'W', 'F', 'D'],
  );
});

test('S1: two holders of one slot at once', () => {
  assert.deepEqual(
    broken(({ bodies, permits }) => {
      at(bodies, 2).beganMs = 1_900;
      at(permits, 0).closedMs = 5_000;
    }),
    ['S1'],
  );
});

test('S1: two acquirers under one permit; one that goes on under its own is one', () => {
  const again = (acquire: string) =>
    broken(({ bodies, acquires }) => {
      bodies.push({ ...at(bodies, 0), acquire, beganMs: 1_500, endedMs: 1_800 });
      acquires.push({ ...at(acquires, 0), id: acquire });
    });
  assert.deepEqual(again('another'), ['S1', 'S4']);
  assert.deepEqual(again('one'), []);
});

test('S1: a holder that works on after its permit has ended does not count, and neither does its end', () => {
  assert.deepEqual(
    broken(({ bodies, permits, outages }) => {
      at(bodies, 0).endedMs = 3_800;
      outages.push({ scope: 'clients', fromMs: 1_200, toMs: 3_700 });
      at(permits, 0).closedMs = 2_900; // its lease
    }),
    [],
  );
});

test('S1: a holder that was killed holds until the server says closed', () => {
  const kill = (closedMs: number) =>
    broken(({ bodies, permits }) => {
      at(bodies, 0).died = true;
      at(permits, 0).closedMs = closedMs;
    });
  assert.deepEqual(kill(2_900), []);
  assert.deepEqual(kill(3_100), ['S1']);
});

test('S1: more at once than the capacity, each in a slot of its own', () => {
  assert.deepEqual(
    broken(({ bodies, permits }) => {
      Object.assign(at(bodies, 2), { slot: '7', beganMs: 1_600 });
      at(permits, 2).slot = '7';
    }),
    ['S1', 'S2'],
  );
});

test('S1: a holder under a permit that the server does not know', () => {
  assert.deepEqual(
    broken(({ permits }) => void permits.splice(1, 1)),
    ['S1'],
  );
});

test('S1 and S2: an operator may add slots, for those who wait meanwhile', () => {
  const resized = (sentMs: number, backMs?: number, answeredMs = sentMs + 10, kind: Order['kind'] = 'resize') =>
    broken(({ bodies, permits, orders }) => {
      Object.assign(at(bodies, 2), { slot: '2' });
      at(permits, 2).slot = '2';
      orders.push({ kind: 'resize', resource: POOL, sentMs, capacity: 3, answeredMs });
      if (backMs !== undefined)
        orders.push({ kind, resource: POOL, sentMs: backMs, capacity: 2, answeredMs: backMs + 10 });
    });
  assert.deepEqual(resized(2_600), []);
  assert.deepEqual(resized(3_100), ['S2'], 'the order came after the grant');
  assert.deepEqual(resized(1_000, 2_600), [], 'it was in effect when the acquirer asked');
  assert.deepEqual(resized(1_000, 2_000), ['S2'], 'it was over by then');
  assert.deepEqual(resized(1_000, 2_000, 2_005), [], 'both were under way at once: either may have been the last');
  assert.deepEqual(resized(1_000, 2_000, undefined, 'terminate-queue'), ['S2'], 'it went with its queue');
});

test('S1: more permits for one key than it may have', () => {
  const keyed = (other: string) =>
    broken(({ pools, acquires }) => {
      at(pools, 0).perKey = 1;
      at(acquires, 0).key = 'ann';
      at(acquires, 1).key = other;
      at(acquires, 2).key = 'bob';
    });
  assert.deepEqual(keyed('ann'), ['S1']);
  assert.deepEqual(keyed('eve'), []);
});

test('S1: a key may have as many permits as an operator has set for it', () => {
  const resized = (key: string, sentMs: number) =>
    broken(({ pools, acquires, orders }) => {
      at(pools, 0).perKey = 1;
      for (const acquire of acquires) acquire.key = 'ann';
      const resource = keyResource(POOL, key);
      orders.push({ kind: 'resize', resource, capacity: 2, sentMs, answeredMs: sentMs + 10 });
    });
  assert.deepEqual(resized('ann', 1_400), []);
  assert.deepEqual(resized('ann', 1_600), ['S1'], 'the order came after the grant');
  assert.deepEqual(resized('bob', 1_400), ['S1']);
});

test('S1: a holder that is stopped loses the permit of its key a little before the other', () => {
  const stopped = (closedMs: number) =>
    broken(({ pools, acquires, permits }) => {
      at(pools, 0).perKey = 1;
      for (const acquire of acquires) acquire.key = 'ann';
      const ofKey = { resource: keyResource(POOL, 'ann'), slot: '0', drained: false };
      for (const [index, permit] of permits.entries()) permit.holder = `holder-${index}`;
      permits.push({ ...ofKey, runId: 'key-1', holder: 'holder-0', startedMs: 940, closedMs });
      permits.push({ ...ofKey, runId: 'key-2', holder: 'holder-1', startedMs: 1_440, closedMs: 2_900 });
    });
  assert.deepEqual(stopped(1_450), []);
  assert.deepEqual(stopped(1_550), ['S1']);
});

test('S2: a slot that no pool has', () => {
  assert.deepEqual(
    broken(({ bodies, permits }) => {
      at(bodies, 1).slot = 'red';
      at(permits, 1).slot = 'red';
    }),
    ['S2'],
  );
});

test('S2: a slot that a key has not, unless an operator has added it', () => {
  const ofKey = (slot: string, resizedMs?: number, backMs?: number) =>
    broken(({ pools, acquires, permits, orders }) => {
      at(pools, 0).perKey = 1;
      at(acquires, 2).key = 'ann'; // waits from 2,500 ms
      const resource = keyResource(POOL, 'ann');
      permits.push({ resource, slot, runId: 'key-1', startedMs: 20_000, closedMs: 20_100, drained: false });
      at(acquires, 2).settledMs = 20_050;
      const order = (capacity: number, sentMs: number) =>
        orders.push({ kind: 'resize', resource, capacity, sentMs, answeredMs: sentMs + 10 });
      if (resizedMs !== undefined) order(2, resizedMs);
      if (backMs !== undefined) order(1, backMs);
    });
  assert.deepEqual(ofKey('0'), []);
  assert.deepEqual(ofKey('1'), ['S2']);
  assert.deepEqual(ofKey('1', 19_000), []);
  assert.deepEqual(ofKey('1', 20_100), ['S2', 'O1'], 'the order came after the grant');
  assert.deepEqual(ofKey('1', 1_000, 18_000), [], 'it was in effect while a caller of this key waited');
  assert.deepEqual(ofKey('1', 1_000, 2_000), ['S2', 'O1'], 'it was over by then');
});

test('S3: a stale write that was admitted; one that was refused is as it should be', () => {
  const late = (admitted: boolean) =>
    broken(({ writes }) => void writes.push({ atMs: 3_500, resource: POOL, slot: '0', runId: 'run-1', admitted }));
  assert.deepEqual(late(true), ['S3']);
  assert.deepEqual(late(false), []);
});

test('S4: a later permit of a slot with a lesser token', () => {
  assert.deepEqual(
    broken(({ bodies, permits, writes }) => {
      for (const items of [bodies, permits, writes]) at<{ runId: string }>(items, 2).runId = 'run-0';
      writes.splice(2, 1);
    }),
    ['S4'],
  );
});

test('S4: one token for two holds one after the other: only by a permit pool', () => {
  const again = (pooled: boolean) =>
    broken(({ acquires, bodies }) => {
      Object.assign(at(bodies, 0), { endedMs: 1_400 });
      bodies.push({ ...at(bodies, 0), acquire: 'next', beganMs: 1_500, endedMs: 1_900 });
      acquires.push({ ...at(acquires, 0), id: 'next' });
      for (const acquire of acquires) acquire.pooled = pooled;
    });
  assert.deepEqual(again(true), []);
  assert.deepEqual(again(false), ['S4']);
});

test('S1, S2: a permit pool may serve on under a permit that it had before a shrink; nobody else', () => {
  const afterShrink = (pooled: boolean, startedMs: number, shrunkMs = 1_100) =>
    broken(({ acquires, bodies, permits, pools, orders }) => {
      at(pools, 0).slots = 1;
      const order = (capacity: number, sentMs: number) =>
        orders.push({ kind: 'resize', resource: POOL, capacity, sentMs, answeredMs: sentMs + 10 });
      order(2, shrunkMs - 1_000);
      order(1, shrunkMs);
      Object.assign(at(acquires, 1), { pooled, askedMs: 1_400 });
      Object.assign(at(permits, 1), { startedMs });
      at(bodies, 1).beganMs = 1_500;
    });
  assert.deepEqual(afterShrink(true, 1_000), []);
  assert.deepEqual(afterShrink(true, 1_450), []); // by a turn from before
  assert.deepEqual(afterShrink(true, 1_450, -6_600), ['S1', 'S2', 'O1']);
  assert.deepEqual(afterShrink(false, 1_000), ['S1', 'S2']);
});

test('S5: a paced permit that ends too early by itself; one that somebody takes away may', () => {
  const pace = (outcome: string | undefined) =>
    broken(({ pools, permits }) => {
      at(pools, 0).paceMs = 1_200; // the second permit has 2,100 ms
      at(permits, 0).outcome = outcome;
      at(permits, 2).outcome = undefined;
    });
  assert.deepEqual(pace('released'), ['S5']);
  assert.deepEqual(pace('revoked'), []);
  assert.deepEqual(pace(undefined), []);
});

test('L1: a permit that is left', () => {
  assert.deepEqual(
    broken(({ leftovers }) => void leftovers.push('permit:pool:0')),
    ['L1'],
  );
  const last = broken(({ permits }) => void Object.assign(at(permits, 1), { closedMs: Number.POSITIVE_INFINITY }));
  assert.ok(last.includes('L1'), `a history that has not ended: ${last}`);
});

test('L2: a free slot with a live waiter', () => {
  const gap = (change: (record: ChaosRecord) => void) =>
    broken((record) => {
      Object.assign(at(record.acquires, 2), { askedMs: 2_100, settledMs: 20_000 });
      Object.assign(at(record.bodies, 2), { beganMs: 20_000, endedMs: 21_000 });
      Object.assign(at(record.permits, 2), { startedMs: 19_950, closedMs: 21_050 });
      change(record);
    });
  assert.deepEqual(
    gap(() => undefined),
    ['L2'],
  );
  assert.deepEqual(
    gap(({ acquires }) => void Object.assign(at(acquires, 2), { set: 'two' })),
    [],
    'one of a set may wait for another of its resources',
  );
  assert.deepEqual(
    gap(({ outages }) => void outages.push({ scope: 'clients', fromMs: 5_000, toMs: 15_000 })),
    [],
    'the only waiter was down',
  );
  assert.deepEqual(
    gap(({ outages }) => void outages.push({ scope: '*', fromMs: 5_000, toMs: 15_000 })),
    [],
    'the server was down',
  );
  const workerDown = (n: number) => ({ scope: `permits-${n}`, fromMs: 5_000, toMs: 15_000 });
  assert.deepEqual(
    gap(({ outages }) => void outages.push(workerDown(1), workerDown(2))),
    [],
    'all permit workers were down',
  );
  assert.deepEqual(
    gap(({ outages }) => void outages.push(workerDown(1))),
    ['L2'],
  );
  assert.deepEqual(
    gap(({ outages }) => void outages.push({ scope: 'another', fromMs: 5_000, toMs: 15_000 })),
    ['L2'],
  );
  assert.deepEqual(
    gap(({ acquires }) => void Object.assign(at(acquires, 2), { askedMs: 15_000 })),
    [],
    'nobody waited',
  );
});

test('L3: an acquire that never ended, and one that failed', () => {
  const ends = (outcome?: Outcome, asked?: Pick<Acquire, 'mayTimeOut' | 'mayBeCancelled'>) =>
    broken(({ acquires }) => {
      acquires.push({
        id: 'late',
        resource: POOL,
        actor: 'clients',
        askedMs: 3_000,
        ...asked,
        ...(outcome && { outcome, settledMs: 4_000 }),
      });
    });
  assert.deepEqual(ends(), ['L3']);
  assert.deepEqual(ends('failed'), ['L3']);
  for (const [outcome, asked] of [
    ['timeout', { mayTimeOut: true }],
    ['full', { mayTimeOut: true }],
    ['cancelled', { mayBeCancelled: true }],
  ] as const) {
    assert.deepEqual(ends(outcome, asked), []);
    assert.deepEqual(ends(outcome), ['L3'], `nobody had asked for ${outcome}`);
  }
  assert.deepEqual(ends('unavailable'), []);
  assert.deepEqual(ends('killed'), []);
});

test('W: a process that ends by itself', () => {
  assert.deepEqual(
    broken(({ deaths }) => void deaths.push({ actor: 'permits-1', how: 'code 1', atMs: 3_000 })),
    ['W'],
  );
});

test('F and D are what the histories told', () => {
  assert.deepEqual(
    broken(({ disorder }) => void disorder.push('a turn')),
    ['F'],
  );
  assert.deepEqual(
    broken(({ replayFailures }) => void replayFailures.push('a history')),
    ['D'],
  );
});

test('it tells stale writes, overlaps that only a fence can tell apart, and how long recoveries took', () => {
  const record = sound();
  at(record.permits, 0).outcome = 'lease-expired';
  at(record.bodies, 0).endedMs = 3_800;
  record.writes.push({ atMs: 3_500, resource: POOL, slot: '0', runId: 'run-1', admitted: false });
  record.faults.push(
    { kind: 'kill-client', atMs: 1_800, target: 'clients' },
    { kind: 'terminate-queue', atMs: 2_600, target: POOL },
    { kind: 'terminate-queue', atMs: 2_700, target: POOL, failed: 'not found' },
  );
  const verdict = judge(record, LIMIT_MS);
  assert.deepEqual(brokenIn(verdict), []);
  assert.equal(verdict.overlapsWithoutFencing, 1);
  assert.equal(verdict.staleWritesRejected, 1);
  assert.deepEqual(verdict.faults, { 'kill-client': 1, 'terminate-queue': 1 });
  assert.deepEqual(verdict.faultsNotDone, { 'terminate-queue': 1 });
  const took = Object.fromEntries(verdict.recoveries.map(({ what, tookMs }) => [what, tookMs]));
  assert.deepEqual(took['holder death to slot free'], [250, 1_750]);
  assert.deepEqual(took['queue termination to next grant'], [400]);
});

test('intervals: what is covered, and what is left', () => {
  const joined = union([
    [5, 7],
    [1, 3],
    [2, 4],
    [9, 9],
  ]);
  assert.deepEqual(joined, [
    [1, 4],
    [5, 7],
  ]);
  assert.equal(covered([2, 6], joined), 3);
  assert.equal(covered([4, 5], joined), 0);
  assert.deepEqual(without([[0, 10]], joined), [
    [0, 1],
    [4, 5],
    [7, 10],
  ]);
});
