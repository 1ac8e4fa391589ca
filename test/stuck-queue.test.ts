import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SemaphoreClient } from '../src/client';
import { startHolder, startHolding, strandQueue, untilAt } from './support/holders';
import { assertSafe, endQueue, eventually, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

/** Milliseconds. The real one is 30 s. */
const RECHECK_AFTER = 300;

/** Fills the pool, and puts a queue before it that runs and has no worker any more. */
async function behindStuckQueue(resource: string, capacity: number, fair: boolean) {
  const semaphore = { capacity, fair, recheckAfter: RECHECK_AFTER };
  const holders = await Promise.all(
    Array.from({ length: capacity }, () => startHolding(temporal, { resource, semaphore })),
  );
  await endQueue(temporal.client, resource); // that of the holders
  const endStranded = await strandQueue(temporal, { resource, semaphore });
  return {
    semaphore,
    free: async () => {
      await holders[0]?.handle.signal(workflows.finish);
      await holders[0]?.handle.result();
    },
    async end() {
      await endStranded();
      await Promise.all(holders.slice(1).map(({ handle }) => handle.signal(workflows.finish)));
      await Promise.all(holders.map(({ handle }) => handle.result()));
    },
  };
}

/** Long enough for every slot's turn in the rounds, and for a busy machine; a delay that grew would be far beyond. */
const WITHIN_MS = 30 * RECHECK_AFTER;

for (const fair of [false, true]) {
  test(`a Workflow finds a slot of ten that comes free behind a stuck queue (fair: ${fair})`, async () => {
    const resource = temporal.resource();
    const { semaphore, free, end } = await behindStuckQueue(resource, 10, fair);
    const waiter = await startHolder(temporal, { resource, semaphore });
    // So long that a delay which grows with each silence has grown to its longest.
    await eventually(async () => {
      const { events } = await waiter.fetchHistory();
      const silences = events?.filter((event) => event.timerFiredEventAttributes).length ?? 0;
      assert.ok(silences >= 5, `${silences} silences`);
    });
    await free();
    const freedMs = Date.now();
    await untilAt(waiter, 'holding');
    const tookMs = Date.now() - freedMs;
    await waiter.signal(workflows.finish);
    await waiter.result();
    await end();
    assert.ok(tookMs < WITHIN_MS, `free for ${tookMs} ms = ${tookMs / RECHECK_AFTER} times recheckAfter`);
    await assertSafe(temporal.client, resource, 10);
  });

  test(`a client finds a slot of ten that comes free behind a stuck queue (fair: ${fair})`, async () => {
    const resource = temporal.resource();
    const { semaphore, free, end } = await behindStuckQueue(resource, 10, fair);
    const pool = new SemaphoreClient(temporal.client, resource, { ...semaphore, taskQueue: temporal.taskQueue });
    const acquiring = pool.acquire({ timeout: '2 minutes' });
    await new Promise((resolve) => setTimeout(resolve, 10 * RECHECK_AFTER));
    await free();
    const freedMs = Date.now();
    const permit = await acquiring;
    const fromMs = Date.now();
    const tookMs = fromMs - freedMs;
    await permit.release();
    await end();
    assert.ok(tookMs < WITHIN_MS, `free for ${tookMs} ms = ${tookMs / RECHECK_AFTER} times recheckAfter`);
    await assertSafe(temporal.client, resource, 10, [{ runId: permit.runId, fromMs, toMs: Date.now() }]);
  });
}
