import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { PermitPool, SemaphoreClient, withPermits } from '../../../src/client';
import { CliHost } from '../../support/cli-host';
import { startHolder, startHolding } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { assertNoPermitLeft, assertSafe, eventually, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// A server that starts one Workflow ID only once a second, and a namespace whose name says so: as on Temporal Cloud.
const temporal = useTemporal({
  dynamicConfig: ['history.enableWorkflowIdReuseStartTimeValidation=true'],
  namespace: 'orders.a1b2c',
});

const host = new CliHost();

/** Starts so many holders at once. @returns how long it took until the last one had released its permit */
async function round(resource: string, count: number, holdMs: number): Promise<number> {
  const fromMs = performance.now();
  const semaphore = { capacity: 3 };
  const holders = Array.from({ length: count }, () => startHolder(temporal, { resource, semaphore, holdMs }));
  await Promise.all((await Promise.all(holders)).map((holder) => holder.result()));
  return Math.round(performance.now() - fromMs);
}

/** That the server had to refuse no start: while a permit runs, the server answers the next claim at once. */
async function assertNoneRefused(resource: string, least: number): Promise<void> {
  const runs = await eventually(async () => {
    const found: { workflowId: string; lastedMs: number }[] = [];
    const query = `WorkflowId STARTS_WITH "permit:${resource}" AND ExecutionStatus != "Running"`; // of its keys, too
    for await (const { workflowId, startTime, closeTime } of temporal.client.workflow.list({ query }))
      found.push({ workflowId, lastedMs: Number(closeTime) - Number(startTime) });
    assert.ok(found.length >= least, `${found.length}`);
    return found;
  });
  for (const { workflowId, lastedMs } of runs) assert.ok(lastedMs >= 1_000, `${workflowId} ran for ${lastedMs} ms`);
}

test('no start is refused, however short the holds are', async (t) => {
  const resource = temporal.resource();
  const tookMs = await round(resource, 20, 0);
  t.diagnostic(`20 holds of 0 ms on 3: ${tookMs} ms`);
  await assertSafe(temporal.client, resource, 3);
  await assertNoneRefused(resource, 20);
});

test('so do holds of 100 ms', async (t) => {
  const resource = temporal.resource();
  const firstMs = await round(resource, 9, 100);
  await delay(1_000); // the last permits are over, and the queue is there still
  const secondMs = await round(resource, 9, 100);
  t.diagnostic(`9 holds of 100 ms on 3: ${firstMs} ms, then ${secondMs} ms`);
  await assertNoneRefused(resource, 18);
});

test('the order of a line stays', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, fair: true };
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

test("nor is one of a key's permit, of an accumulator, of a permit pool, or of a slot out of use", async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const keyed = new SemaphoreClient(client, resource, { capacity: 4, taskQueue, perKey: 1 });
  const plain = new SemaphoreClient(client, temporal.resource(), { capacity: 2, taskQueue });
  const paused = new SemaphoreClient(client, temporal.resource(), { capacity: 1, taskQueue });
  const pools = [1, 2].map(() => new PermitPool(plain, { idleFor: 0 }));
  const nothing = async () => undefined;
  await Promise.all([
    ...[1, 2, 3].map(() => keyed.withPermit(nothing, { key: 'x' })),
    ...[1, 2, 3].map(() => withPermits([{ of: plain, permits: 2 }], nothing)),
    ...pools.map(async (pool) => {
      for (let nth = 1; nth <= 3; nth++) await pool.withPermit(nothing);
      await pool.close();
    }),
    operatorOf(paused)
      .pause()
      .then(() => operatorOf(paused).resume())
      .then(() => paused.withPermit(nothing)),
  ]);
  await assertNoneRefused(resource, 6);
  for (const used of [resource, plain.resource, paused.resource]) await assertNoPermitLeft(client, used);
  await assertNoneRefused(paused.resource, 2);
  await assertNoneRefused(plain.resource, 3 * 3 + pools.length);
});

test('doctor names the resource whose holds are too short for the rule', async () => {
  const resource = temporal.resource();
  const { taskQueue, env } = temporal;
  const holders = round(resource, 30, 0);
  await eventually(async () => {
    const args = [
      'doctor',
      '--json',
      '--task-queue',
      taskQueue,
      '--address',
      env.address,
      '--namespace',
      'orders.a1b2c',
    ];
    const found: { what: string }[] = JSON.parse((await host.run(args)).stdout);
    assert.deepEqual(
      found.map(({ what }) => what).filter((what) => what.includes('once a second')),
      [
        `"${resource}": holds are shorter than a second, and Temporal Cloud starts Workflows with the same ID only once a second, so each slot serves one hold a second`,
      ],
    );
  });
  await holders;
});

test('clients wait for their permits like Workflows, and no error reaches them', async (t) => {
  const resource = temporal.resource();
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 3, taskQueue: temporal.taskQueue });
  const fromMs = performance.now();
  await Promise.all(Array.from({ length: 9 }, () => semaphore.withPermit(async () => undefined)));
  t.diagnostic(`9 clients on 3: ${Math.round(performance.now() - fromMs)} ms`);
  await assertNoPermitLeft(temporal.client, resource);
  await assertNoneRefused(resource, 9);
});
