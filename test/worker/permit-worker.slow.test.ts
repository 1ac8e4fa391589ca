import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time';
import { Worker, type WorkerPlugin } from '@temporalio/worker';
import { type Permit, SemaphoreClient } from '../../src/client';
import { createPermitWorker, SemaphorePlugin } from '../../src/worker';
import { endWithTests } from '../support/children';
import { CliProcess } from '../support/cli-process';
import { dataConverter } from '../support/encrypting-converter';
import { startOptions } from '../support/holders';
import { oneCall } from '../support/limited-workflows';
import { operatorOf } from '../support/operators';
import type { PluginInput } from '../support/plugin-main';
import { assertSafe, eventually, useTemporal, warnings } from '../support/temporal';
import { holder } from '../support/workflows';

const temporal = useTemporal({ shared: true });

/** Temporal's `TaskQueueType`. */
const [WORKFLOW_TASKS, ACTIVITY_TASKS] = [1, 2];

/** Temporal's `TimeoutType`: nobody took the task. */
const SCHEDULE_TO_START = 2;

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

test('a healthy permit worker warns of nothing, and polls for no activities', async () => {
  const taskQueue = `permits-${randomUUID()}`;
  const { nativeConnection: connection } = temporal.env;
  const worker = await createPermitWorker({ connection, taskQueue });
  const pollers = async (taskQueueType: number) => {
    const found = await connection.workflowService.describeTaskQueue({
      namespace: 'default',
      taskQueue: { name: taskQueue },
      taskQueueType,
    });
    return found.pollers.length;
  };
  await worker.runUntil(async () => {
    await eventually(async () => assert.equal(await pollers(WORKFLOW_TASKS), 1));
    await new SemaphoreClient(temporal.client, temporal.resource(), { capacity: 1, taskQueue }).withPermit(
      async () => 0,
    );
    assert.equal(await pollers(ACTIVITY_TASKS), 0);
  });
  assert.deepEqual(
    warnings.filter(({ meta }) => meta?.taskQueue === taskQueue),
    [],
  );
});

test('after kill -9 of a permit worker, the next one releases within seconds what it knew', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const { address } = temporal.env;
  const killed = new CliProcess(['worker', '--task-queue', taskQueue, '--address', address]);
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 10, taskQueue, lease: '10 minutes' });
  const permits = await Promise.all(Array.from({ length: 10 }, () => semaphore.acquire()));
  await eventually(async () => {
    for (const { leaseDeadline } of (await operatorOf(semaphore).inspect()).slots.map(
      ({ permit }) => permit ?? assert.fail(),
    )) {
      assert.ok(leaseDeadline, 'the worker has not started this permit yet');
    }
  });
  const worker = await createPermitWorker({ connection: temporal.env.nativeConnection, taskQueue });
  killed.signal('SIGKILL');
  await killed.exit;
  await worker.runUntil(Promise.all(permits.map((permit) => permit.release())));
  const waitsMs = (await Promise.all(permits.map(waitsForDeadWorker))).flat();
  assert.ok(waitsMs.length > 0);
  for (const ms of waitsMs) assert.ok(ms < 10_000, `${ms} ms by the server's clock: the SDK's default`);
});

/**
 * How long the server has kept tasks of the permit for the worker that had it in memory. A task that the worker had already
 * been given is another matter: that lasts for the time which a worker has for a task.
 */
async function waitsForDeadWorker({ workflowId, runId }: Permit): Promise<number[]> {
  const { events } = await temporal.client.workflow.getHandle(workflowId, runId).fetchHistory();
  return (events ?? []).flatMap(({ workflowTaskTimedOutEventAttributes: timedOut, eventTime }) => {
    const isKept = timedOut?.timeoutType === SCHEDULE_TO_START;
    const scheduled = isKept && events?.find(({ eventId }) => eventId?.eq(timedOut.scheduledEventId ?? 0));
    return scheduled ? [tsToMs(eventTime) - tsToMs(scheduled.eventTime)] : [];
  });
}

test('the plugin runs a permit worker beside the worker that it is given to, and ends with it', async () => {
  const resource = temporal.resource();
  const [taskQueue, permitQueue] = [`own-${randomUUID()}`, `permits-${randomUUID()}`];
  const worker = await Worker.create({
    connection: temporal.env.nativeConnection,
    workflowBundle: temporal.bundle,
    taskQueue,
    plugins: [new SemaphorePlugin({ taskQueue: permitQueue })],
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

test("the plugin's permit worker has the data converter that a later plugin sets", async () => {
  const resource = temporal.resource();
  const [taskQueue, permitQueue] = [`own-${randomUUID()}`, `permits-${randomUUID()}`];
  const encrypting: WorkerPlugin = {
    name: 'encrypting',
    configureWorker: (options) => ({ ...options, dataConverter }),
  };
  const worker = await Worker.create({
    connection: temporal.env.nativeConnection,
    workflowBundle: temporal.bundle,
    taskQueue,
    plugins: [new SemaphorePlugin({ taskQueue: permitQueue }), encrypting],
  });
  const client = new Client({ connection: temporal.client.connection, dataConverter });
  const { at } = await worker.runUntil(
    client.workflow.execute(holder, {
      workflowId: `holder-${randomUUID()}`,
      taskQueue,
      args: [{ resource, semaphore: { capacity: 1, taskQueue: permitQueue }, holdMs: 0 }],
    }),
  );
  assert.equal(at, 'done');
});

test('a permit worker that ends before the worker of the plugin has begun takes that along', async () => {
  let permits: Worker | undefined;
  const slow: WorkerPlugin = {
    name: 'slow',
    runWorker: async (worker, next) => {
      permits?.shutdown();
      await delay(500);
      await next(worker);
    },
  };
  const plugins = [new SemaphorePlugin({ taskQueue: `permits-${randomUUID()}` }), slow];
  const { nativeConnection: connection } = temporal.env;
  const taskQueue = `own-${randomUUID()}`;
  const worker = await Worker.create({ connection, taskQueue, plugins, activities: { none: async () => {} } });
  const create = Worker.create;
  Worker.create = async (options) => {
    permits = await create.call(Worker, options);
    return permits;
  };
  try {
    const ended = await Promise.race([worker.run().then(() => 'ended'), delay(60_000, 'runs on', { ref: false })]);
    if (ended !== 'ended') worker.shutdown();
    assert.equal(ended, 'ended');
  } finally {
    Worker.create = create;
  }
});

test('by SIGTERM a process that runs the permits gives its own back, and waits for no permit worker that it has ended', async () => {
  const [ofActivity, ofPool] = [temporal.resource(), temporal.resource()];
  const taskQueue = `own-${randomUUID()}`;
  const permitQueue = `permits-${randomUUID()}`;
  const { address } = temporal.env;
  const input: PluginInput = { address, taskQueue, permitQueue, resources: [ofActivity, ofPool] };
  const main = require.resolve('../support/plugin-main');
  const child = spawn(process.execPath, ['--import', 'tsx', main, JSON.stringify(input)], { env: process.env });
  endWithTests(child);
  let said = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (text) => (said += text));
  const call = await temporal.client.workflow.start(oneCall, {
    ...startOptions(temporal, 'limited'),
    args: [taskQueue, { callMs: 0, startToCloseMs: 600_000 }],
  });
  await eventually(async () => assert.match(said, /both work/));
  child.kill('SIGTERM');
  // The lease is ten minutes, for which a release waits that no worker carries out.
  const closed = await Promise.race([once(child, 'close'), delay(60_000, 'it waits', { ref: false })]);
  assert.deepEqual(closed, [0, null], said);
  assert.match(said, /closed\n$/);
  assert.doesNotMatch(said, /PermitReleaseWarning/);
  assert.equal(
    await permitOf(ofActivity).result(),
    'released',
    'its permit worker has ended the permit before it ended itself',
  );
  const next = await createPermitWorker({ connection: temporal.env.nativeConnection, taskQueue: permitQueue });
  await next.runUntil(async () => assert.equal(await permitOf(ofPool).result(), 'released'));
  await call.terminate().catch(() => undefined); // its activity may have ended in time
});

function permitOf(resource: string) {
  return temporal.client.workflow.getHandle<() => Promise<string>>(`permit:${resource}:0`);
}
