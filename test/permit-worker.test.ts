import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import { SemaphoreClient } from '../src/client';
import { createPermitWorker, type PermitWorkerOptions, PermitWorkerPlugin } from '../src/worker';
import { CliProcess } from './support/cli-process';
import { assertSafe, eventually, useTemporal } from './support/temporal';
import { holder } from './support/workflows';

const temporal = useTemporal({ shared: true });

test('permits run on the task queue of a permit worker, whose application has another', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const worker = await createPermitWorker({ connection: temporal.env.nativeConnection, taskQueue });
  const { runId } = await worker.runUntil(
    temporal.client.workflow.execute(holder, {
      workflowId: `holder-${randomUUID()}`,
      taskQueue: temporal.taskQueue,
      args: [{ resource, semaphore: { capacity: 1, taskQueue }, holdMs: 50 }],
    }),
  );

  const [hold] = await assertSafe(temporal.client, resource, 1);
  assert.equal(hold?.runId, runId);
  const permit = await temporal.client.workflow.getHandle(`permit:${resource}:0`, runId).describe();
  assert.equal(permit.taskQueue, taskQueue);
});

test('after kill -9 of a permit worker, the next one releases within seconds what it knew', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const { address } = temporal.env;
  const killed = new CliProcess(['worker', '--task-queue', taskQueue, '--address', address]);
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 10, taskQueue, lease: '10 minutes' });
  const permits = await Promise.all(Array.from({ length: 10 }, () => pool.acquire()));
  await eventually(async () => {
    for (const { leaseDeadline } of (await pool.inspect()).slots.map(({ permit }) => permit ?? assert.fail())) {
      assert.ok(leaseDeadline, 'the worker has not started this permit yet');
    }
  });
  killed.signal('SIGKILL');
  await killed.exit;
  const worker = await createPermitWorker({ connection: temporal.env.nativeConnection, taskQueue });
  await worker.runUntil(async () => {
    const startedMs = Date.now();
    await Promise.all(permits.map((permit) => permit.release()));
    const tookMs = Date.now() - startedMs;
    assert.ok(tookMs < 8_000, `${tookMs} ms; by the SDK's default it is more than 10 s`);
  });
});

test('the plugin runs a permit worker beside the worker that it is given to, and ends with it', async () => {
  const resource = temporal.resource();
  const [taskQueue, permitQueue] = [`own-${randomUUID()}`, `permits-${randomUUID()}`];
  const worker = await Worker.create({
    connection: temporal.env.nativeConnection,
    workflowsPath: require.resolve('./support/workflows'),
    taskQueue,
    plugins: [new PermitWorkerPlugin({ taskQueue: permitQueue })],
  });
  const { runId } = await worker.runUntil(
    temporal.client.workflow.execute(holder, {
      workflowId: `holder-${randomUUID()}`,
      taskQueue,
      args: [{ resource, semaphore: { capacity: 1, taskQueue: permitQueue }, holdMs: 50 }],
    }),
  );
  const permit = await temporal.client.workflow.getHandle(`permit:${resource}:0`, runId).describe();
  assert.equal(permit.taskQueue, permitQueue);
  assert.equal(worker.getState(), 'STOPPED');
});

test("the plugin refuses the worker's own task queue", async () => {
  assert.throws(() => new PermitWorkerPlugin({ taskQueue: '' }), { name: 'InvalidOptionsError' });
  const plugins = [new PermitWorkerPlugin({ taskQueue: 'one' })];
  const { nativeConnection: connection } = temporal.env;
  await assert.rejects(Worker.create({ connection, taskQueue: 'one', plugins, activities: {} }), {
    name: 'InvalidOptionsError',
    message: /^taskQueue: expected another than your own worker's/,
  });
});

const taskQueue = 'permits';
for (const [what, options, message] of [
  ['no options', undefined, /^options: expected an object, got undefined$/],
  ['no task queue', {}, /^taskQueue: expected a non-empty string, got undefined$/],
  ['an empty task queue', { taskQueue: '' }, /^taskQueue: expected a non-empty string, got ""$/],
  ['an empty namespace', { taskQueue, namespace: '' }, /^namespace: expected a non-empty string, got ""$/],
  [
    "a client's connection",
    { taskQueue, connection: new Map() },
    /^connection: expected a NativeConnection .* got "Map"$/,
  ],
  ['null for a connection', { taskQueue, connection: null }, /^connection: expected a NativeConnection /],
  [
    'activities',
    { taskQueue, activities: {} } satisfies WorkerOptions,
    /^activities: expected nothing .* got "object"$/,
  ],
] as const) {
  test(`refuses ${what}`, async () => {
    await assert.rejects(createPermitWorker(options as unknown as PermitWorkerOptions), {
      name: 'InvalidOptionsError',
      message,
    });
  });
}
