/**
 * What the suites of Apache Curator (`TestInterProcessSemaphore`) and Redisson (`RedissonSemaphoreTest`,
 * `RedissonPermitExpirableSemaphoreTest`) ask of their semaphores, asked of ours; in our words. Here stands what no other file has.
 * Others have the rest: `contract`, `client.test.ts`, `semaphore.test.ts`, `operate.test.ts`, `inspect.test.ts`, `crash.slow.test.ts`,
 * `client-loss.test.ts`, `permit-set.test.ts`. We promise one thing differently: a second `trySetPermits` fails there, while here
 * the last order counts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReportedHold } from '../../../scripts/support/holder-intervals';
import { type Permit, SemaphoreClient } from '../../../src/client';
import { assertSafe, until, untilWaiting, useTemporal } from '../../support/temporal';

const temporal = useTemporal({ shared: true });

function semaphore(resource: string, capacity = 1) {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue: temporal.taskQueue });
}

test('Curator testRelease1AtATime, testReleaseInChunks: many wait for eleven slots, use them all, and they come free a few at a time', async () => {
  const [capacity, waiters] = [11, 12];
  const resource = temporal.resource();
  const pool = semaphore(resource, capacity);
  const held: { permit: Permit; fromMs: number }[] = [];
  const acquires = Array.from({ length: capacity + waiters }, async () => {
    const permit = await pool.acquire();
    held.push({ permit, fromMs: Date.now() });
  });
  await until(() => held.length === capacity);
  await untilWaiting(temporal.client, resource, waiters);
  const reports: ReportedHold[] = [];
  for (let chunk = 1; reports.length < acquires.length; chunk = (chunk % 5) + 1) {
    await until(() => held.length > 0);
    const released = held.splice(0, chunk);
    const toMs = Date.now();
    for (const { permit, fromMs } of released) reports.push({ runId: permit.runId, fromMs, toMs });
    await Promise.all(released.map(({ permit }) => permit.release()));
  }
  await Promise.all(acquires);
  assert.equal((await assertSafe(temporal.client, resource, capacity, reports)).length, acquires.length);
});

test('Redisson testConcurrencyLoop_MultiInstance: no update of an unguarded counter is lost under a mutex', async () => {
  const resource = temporal.resource();
  let counter = 0;
  const increment = async () => {
    for (let round = 0; round < 4; round++) {
      await semaphore(resource).withPermit(async () => {
        const read = counter;
        await delay(5);
        counter = read + 1;
      });
    }
  };
  await Promise.all(Array.from({ length: 5 }, increment));
  assert.equal(counter, 20);
});
