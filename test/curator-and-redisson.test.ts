/**
 * What the suites of Apache Curator (`TestInterProcessSemaphore`) and Redisson (`RedissonSemaphoreTest`,
 * `RedissonPermitExpirableSemaphoreTest`) ask of their semaphores, asked of ours; in our words. Each test names its source.
 * Left out are cases that other files have: a timeout (`client.test.ts`), a lost server (`crash.test.ts`), a lost connection and
 * a killed waiter (`client-loss.test.ts`), several permits at once (`permit-set.test.ts`); and what we promise differently: a
 * second `trySetPermits` fails there, while here the last order counts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReportedHold } from '../scripts/support/holder-intervals';
import { type Permit, PermitLostError, SemaphoreClient, type SemaphoreClientOptions } from '../src/client';
import { assertSafe, eventually, until, untilWaiting, useTemporal } from './support/temporal';

const temporal = useTemporal({ shared: true });

function semaphore(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  return new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue, ...options });
}

test('Curator testThreadedLeaseIncrease: a raised capacity serves those who wait already', async () => {
  const pool = semaphore(temporal.resource());
  const first = await pool.acquire();
  const second = pool.acquire();
  await untilWaiting(temporal.client, pool.resource, 1);
  await pool.resize(2);
  await (await second).release();
  await first.release();
  await pool.resize(1);
});

test('Curator testRelease1AtATime: ten clients on capacity 5 all use it, and at some moment all five slots', async () => {
  const resource = temporal.resource();
  let active = 0;
  let most = 0;
  const use = async (): Promise<ReportedHold> => {
    const permit = await semaphore(resource, { capacity: 5 }).acquire();
    const fromMs = Date.now();
    most = Math.max(most, ++active);
    await eventually(async () => assert.equal(most, 5)); // the first five leave together
    active--;
    const toMs = Date.now();
    await permit.release();
    return { runId: permit.runId, fromMs, toMs };
  };
  const reports = await Promise.all(Array.from({ length: 10 }, use));
  assert.equal(most, 5);
  assert.equal((await assertSafe(temporal.client, resource, 5, reports)).length, 10);
});

test('Curator testReleaseInChunks: forty wait for eleven slots, which come free a few at a time', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 11 });
  const held: { permit: Permit; fromMs: number }[] = [];
  const acquires = Array.from({ length: 40 }, async () => {
    const permit = await pool.acquire();
    held.push({ permit, fromMs: Date.now() });
  });
  const reports: ReportedHold[] = [];
  for (let chunk = 1; reports.length < 40; chunk = (chunk % 5) + 1) {
    await until(() => held.length > 0);
    const released = held.splice(0, chunk);
    const toMs = Date.now();
    for (const { permit, fromMs } of released) reports.push({ runId: permit.runId, fromMs, toMs });
    await Promise.all(released.map(({ permit }) => permit.release()));
  }
  await Promise.all(acquires);
  assert.equal((await assertSafe(temporal.client, resource, 11, reports)).length, 40);
});

test('Curator testGetParticipantNodes: the holders can be listed', async () => {
  const pool = semaphore(temporal.resource(), { capacity: 3 });
  const permits = [await pool.acquire(), await pool.acquire(), await pool.acquire()];
  const { slots } = await pool.inspect();
  assert.deepEqual(slots.map(({ permit }) => permit?.runId).sort(), permits.map(({ runId }) => runId).sort());
  await Promise.all(permits.map((permit) => permit.release()));
});

test('Redisson testExpire: a lease without renewals ends by itself, the next one gets the slot then, and the old release does nothing', async () => {
  const pool = semaphore(temporal.resource());
  const startedMs = Date.now();
  const expiring = await pool.acquire({ lease: '2s', renewEvery: false });
  const next = await pool.acquire();
  const tookMs = Date.now() - startedMs;
  assert.ok(tookMs >= 2_000 && tookMs < 6_000, `${tookMs} ms`);
  await expiring.release();
  assert.equal(next.signal.aborted, false, "the old holder's release is not for the new permit");
  await next.renew();
  await assert.rejects(expiring.renew(), PermitLostError);
  await next.release();
});

test('Redisson testTryAcquire: a try fails at once, a wait lasts until the release', async () => {
  const pool = semaphore(temporal.resource());
  const first = await pool.acquire();
  assert.equal(await pool.tryAcquire(), undefined);
  const startedMs = Date.now();
  const release = delay(500).then(() => first.release());
  const second = await pool.acquire({ timeout: '10s' });
  assert.ok(Date.now() - startedMs >= 500);
  await release;
  assert.equal(await pool.tryAcquire(), undefined);
  await second.release();
});

test('Redisson testReducePermits: a capacity below what is held lets holders finish, and then admits no more than that', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 4 });
  const permits = await Promise.all(Array.from({ length: 4 }, () => pool.acquire()));
  await pool.resize(2);
  assert.ok(permits.every(({ signal }) => !signal.aborted));
  await Promise.all(permits.map((permit) => permit.release()));
  await eventually(async () => {
    const { slots } = await pool.inspect();
    assert.equal(slots.filter(({ state }) => state === 'drained').length, 2);
  });
  const again = [await pool.tryAcquire(), await pool.tryAcquire(), await pool.tryAcquire()];
  assert.equal(again.filter((permit) => permit !== undefined).length, 2);
  await Promise.all(again.map((permit) => permit?.release()));
  await pool.resize(4);
});

test('Redisson testConcurrencyLoop_MultiInstance: no update of an unguarded counter is lost under a mutex', async () => {
  const resource = temporal.resource();
  let counter = 0;
  const increment = async () => {
    for (let round = 0; round < 5; round++) {
      await semaphore(resource).withPermit(async () => {
        const read = counter;
        await delay(5);
        counter = read + 1;
      });
    }
  };
  await Promise.all(Array.from({ length: 8 }, increment));
  assert.equal(counter, 40);
});
