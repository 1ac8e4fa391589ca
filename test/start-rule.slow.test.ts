import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { permitsQuery } from '../scripts/support/holder-intervals';
import { SemaphoreClient } from '../src/client';
import { startHolder, startHolding } from './support/holders';
import { assertNoPermitLeft, assertSafe, eventually, untilWaiting, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

// A server that starts one Workflow ID only once a second, as Temporal Cloud does.
const temporal = useTemporal({ dynamicConfig: ['history.enableWorkflowIdReuseStartTimeValidation=true'] });

const pace = { every: '1s' } as const;

/** Starts so many holders at once. @returns how long it took until the last one had released its permit */
async function round(resource: string, count: number, holdMs: number): Promise<number> {
  const fromMs = performance.now();
  const semaphore = { capacity: 3, pace };
  const holders = Array.from({ length: count }, () => startHolder(temporal, { resource, semaphore, holdMs }));
  await Promise.all((await Promise.all(holders)).map((holder) => holder.result()));
  return Math.round(performance.now() - fromMs);
}

/** That the server had the rule. It tells the time of a start a little earlier than it checks it. */
async function assertOnceASecond(resource: string, count: number): Promise<void> {
  const starts = await eventually(async () => {
    const found: { workflowId: string; atMs: number }[] = [];
    for await (const { workflowId, startTime } of temporal.client.workflow.list({ query: permitsQuery(resource) }))
      found.push({ workflowId, atMs: startTime.getTime() });
    assert.equal(found.length, count);
    return found.sort((a, b) => a.atMs - b.atMs);
  });
  const lastMs = new Map<string, number>();
  for (const { workflowId, atMs } of starts) {
    const apartMs = atMs - (lastMs.get(workflowId) ?? Number.NEGATIVE_INFINITY);
    assert.ok(apartMs >= 300, `${workflowId} was started twice within ${apartMs} ms`);
    lastMs.set(workflowId, atMs);
  }
}

test('with a pace of one second no start is refused, however short the holds are', async (t) => {
  const resource = temporal.resource();
  const tookMs = await round(resource, 20, 0);
  t.diagnostic(`20 holds of 0 ms on 3: ${tookMs} ms`);
  await assertSafe(temporal.client, resource, 3);
  await assertOnceASecond(resource, 20);
});

test('so do holds of 100 ms', async (t) => {
  const resource = temporal.resource();
  const firstMs = await round(resource, 9, 100);
  await delay(1_000); // the last permits are over, and the queue is there still
  const secondMs = await round(resource, 9, 100);
  t.diagnostic(`9 holds of 100 ms on 3: ${firstMs} ms, then ${secondMs} ms`);
  await assertOnceASecond(resource, 18);
});

test('the order of a line stays', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, fair: true, pace };
  const { handle: first } = await startHolding(temporal, { resource, semaphore });
  const waiters: Awaited<ReturnType<typeof startHolder>>[] = [];
  for (let count = 1; count <= 6; count++) {
    waiters.push(await startHolder(temporal, { resource, semaphore, holdMs: 0 }));
    await untilWaiting(temporal.client, resource, count);
  }
  await first.signal(workflows.finish);
  await Promise.all(waiters.map((waiter) => waiter.result()));
  const holds = await assertSafe(temporal.client, resource, 1);
  assert.deepEqual(
    holds.sort((a, b) => a.fromMs - b.fromMs).map(({ holder }) => holder),
    [first, ...waiters].map(({ workflowId }) => workflowId),
  );
});

test('clients wait for their permits like Workflows, and no error reaches them', async (t) => {
  const resource = temporal.resource();
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 3, taskQueue: temporal.taskQueue, pace });
  const fromMs = performance.now();
  await Promise.all(Array.from({ length: 9 }, () => pool.withPermit(async () => undefined)));
  t.diagnostic(`9 clients on 3: ${Math.round(performance.now() - fromMs)} ms`);
  await assertNoPermitLeft(temporal.client, resource);
  await assertOnceASecond(resource, 9);
});
