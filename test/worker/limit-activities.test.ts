import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { WorkflowFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import { optionalTsToMs } from '@temporalio/common/lib/time';
import { NativeConnection, Worker } from '@temporalio/worker';
import { PermitPool, SemaphoreClient } from '../../src/client';
import { currentFencingToken, FencingToken, StaleTokenError } from '../../src/fencing';
import { type ActivityLimit, type ActivityLimits, SemaphorePlugin } from '../../src/worker';
import { Semaphore } from '../../src/workflow';
import { startOptions } from '../support/holders';
import { fourCalls, type LimitedActivities, type OneCall, oneCall } from '../support/limited-workflows';
import { operatorOf } from '../support/operators';
import { eventually, permitsRunning, until, untilWaiting, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });

let pools: PermitPool[] = [];
let running: { worker: Worker; ended: Promise<void> }[] = [];
const BEAT_MS = 200;
/** How an activity hears that it is to stop. */
const WORKS = {
  cancellationSignal: (ms: number, { cancellationSignal }: Context) =>
    delay(ms, undefined, { signal: cancellationSignal }),
  cancelled: (ms: number, { cancelled }: Context) => Promise.race([cancelled, delay(ms, undefined, { ref: false })]),
  sleep: (ms: number, context: Context) => context.sleep(ms),
};
/** What the activities do unless a test says otherwise, and what has come of it. */
const atFirst = () => ({
  stopsBy: 'cancellationSignal' as keyof typeof WORKS,
  calls: 0,
  most: 0,
  begun: 0,
  stale: 0,
  beatMs: BEAT_MS,
  isShort: false,
  aborted: [] as unknown[],
});
const now = atFirst();

const activities: LimitedActivities = {
  callVendor: async (callMs) => {
    const { cancellationSignal, heartbeat } = Context.current();
    const beats = setInterval(heartbeat, now.beatMs); // by its heartbeats an activity hears that it is cancelled
    now.begun++;
    now.most = Math.max(now.most, ++now.calls);
    try {
      if (now.stale-- > 0) throw new StaleTokenError(currentFencingToken() ?? assert.fail(), undefined);
      await WORKS[now.stopsBy](now.isShort ? 1 : callMs, Context.current());
      return String(currentFencingToken());
    } catch (error) {
      now.aborted.push(cancellationSignal.reason);
      throw error;
    } finally {
      clearInterval(beats);
      now.calls--;
    }
  },
};

afterEach(endWorkers);

/** Tells the calls that still run, and gives the permits back. */
async function endWorkers(): Promise<void> {
  for (const { worker, ended } of running) {
    if (worker.getState() === 'RUNNING') worker.shutdown();
    await ended;
  }
  for (const pool of pools) await pool.close();
  pools = [];
  running = [];
  Object.assign(now, atFirst());
}

function semaphore(resource: string, capacity: number) {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue: temporal.taskQueue });
}

/** Its permits run on the worker of this file: to bundle their Workflows for each worker would take a second of work. */
function pluginFor(callVendor: PermitPool | ActivityLimit<[callMs: number]>): SemaphorePlugin {
  return new SemaphorePlugin({ taskQueue: temporal.taskQueue, permitWorker: false, activities: { callVendor } });
}

/** A worker of activities alone, whose vendor calls have a permit pool of their own: the test's, or that of a plugin. */
async function startWorker(
  limit: SemaphoreClient | ActivityLimit<[callMs: number]>,
  taskQueue: string,
): Promise<Worker> {
  const pool = limit instanceof SemaphoreClient ? new PermitPool(limit) : undefined;
  if (pool) pools.push(pool);
  // Two workers of one task queue need a connection each.
  const connection = await NativeConnection.connect({ address: temporal.env.address });
  const callVendor = limit instanceof SemaphoreClient ? (pool ?? assert.fail()) : limit;
  const plugins = [pluginFor(callVendor)];
  const worker = await Worker.create({ connection, activities, taskQueue, plugins });
  running.push({ worker, ended: worker.run().finally(() => connection.close()) });
  return worker;
}

async function start(taskQueue: string, input: OneCall) {
  return await temporal.client.workflow.start(oneCall, {
    ...startOptions(temporal, 'limited'),
    args: [taskQueue, input],
  });
}

function failureOf(error: unknown): ApplicationFailure {
  assert.ok(error instanceof WorkflowFailedError && error.cause instanceof ActivityFailure);
  assert.ok(error.cause.cause instanceof ApplicationFailure, String(error.cause.cause));
  return error.cause.cause;
}

test('operators see which activity of which Workflow a permit of a SemaphoreClient is for, unless it names a purpose', async () => {
  const resource = temporal.resource();
  const taskQueue = temporal.resource('own');
  const pool = semaphore(resource, 2);
  const purposes = async () => {
    const held = [await pool.acquire(), await pool.acquire({ purpose: 'its own' })];
    const { slots } = await operatorOf(pool).inspect({ recent: 0 });
    for (const permit of held) await permit.release();
    return slots
      .map(({ permit }) => permit?.purpose)
      .sort()
      .join(', ');
  };
  const connection = await NativeConnection.connect({ address: temporal.env.address });
  const plugins = [new SemaphorePlugin({ taskQueue: temporal.taskQueue, permitWorker: false })];
  const activities = { callVendor: purposes };
  const worker = await Worker.create({ connection, activities, taskQueue, plugins });
  running.push({ worker, ended: worker.run().finally(() => connection.close()) });
  const handle = await start(taskQueue, { callMs: 0, startToCloseMs: 60_000 });
  assert.equal(await handle.result(), `callVendor of ${handle.workflowId}, its own`);
  assert.equal(await purposes(), 'its own, ', 'no activity, no default');
});

test('40 activities of 10 Workflows on two workers: never more than 5 at once, and no event more', async () => {
  const resource = temporal.resource();
  const eventsOf = async (taskQueue: string) =>
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        const handle = await temporal.client.workflow.start(fourCalls, {
          ...startOptions(temporal, 'limited'),
          args: [taskQueue, 20],
        });
        const tokens = await handle.result();
        const { events = [] } = await handle.fetchHistory();
        const activityEvents = events?.filter((event) =>
          Object.keys(event).some((key) => /^activityTask.*EventAttributes$/.test(key) && event[key as 'eventId']),
        );
        return { tokens, events: activityEvents?.length ?? 0 };
      }),
    );
  const limited = `limited-${randomUUID()}`;
  await startWorker(semaphore(resource, 5), limited);
  await startWorker({ semaphore: new Semaphore(resource, { capacity: 5, taskQueue: temporal.taskQueue }) }, limited);
  const ends = await eventsOf(limited);
  assert.ok(now.most <= 5, `${now.most} at once`);
  assert.equal(now.begun, 40);
  for (const { tokens, events } of ends) {
    assert.equal(events, 4 * 3, 'scheduled, started and completed');
    for (const token of tokens) assert.equal(FencingToken.parse(token).resource, resource);
  }
});

test('cancelled while it waits, an activity ends and has not run; cancelled while it runs, its signal aborts', async () => {
  const resource = temporal.resource();
  const taskQueue = `limited-${randomUUID()}`;
  const client = semaphore(resource, 1);
  await startWorker(client, taskQueue);
  const input = { callMs: 60_000, startToCloseMs: 60_000, heartbeatMs: 3_000 };
  const permit = await client.acquire();
  const waiting = await start(taskQueue, input);
  await untilWaiting(temporal.client, resource, 1);
  await waiting.cancel();
  assert.equal(await waiting.result(), 'cancelled');
  assert.equal(now.begun, 0);
  await permit.release();
  const running = await start(taskQueue, input);
  await until(() => now.calls === 1);
  await running.cancel();
  assert.equal(await running.result(), 'cancelled');
  assert.equal(now.begun, 1);
  assert.equal(now.aborted.length, 1);
});

test('paused or reset while it waits, an activity leaves the line; while it runs, it is told, and gives its permit back', async () => {
  now.stopsBy = 'sleep';
  const resource = temporal.resource();
  const taskQueue = `limited-${randomUUID()}`;
  const client = semaphore(resource, 1);
  await startWorker(client, taskQueue);
  const permit = await client.acquire();
  const handle = await start(taskQueue, { callMs: 60_000, startToCloseMs: 600_000, heartbeatMs: 3_000 });
  const { workflowService, options } = temporal.client;
  const request = {
    namespace: options.namespace,
    execution: { workflowId: handle.workflowId },
    type: 'callVendor',
  };
  await untilWaiting(temporal.client, resource, 1);
  await workflowService.pauseActivity(request);
  await untilWaiting(temporal.client, resource, 0);
  assert.equal(now.begun, 0);
  await workflowService.unpauseActivity(request);
  await untilWaiting(temporal.client, resource, 1);
  await permit.release();
  await until(() => now.calls === 1);
  await workflowService.pauseActivity(request);
  await until(() => now.aborted.length === 1);
  await until(async () => (await permitsRunning(temporal.client, resource)).length === 0);
  await workflowService.unpauseActivity(request);
  await until(() => now.calls === 1);
  await workflowService.resetActivity(request);
  await until(() => now.begun === 3);
  assert.equal(now.aborted.length, 2);
  assert.equal(now.most, 1);
  await handle.terminate();
});

test('it waits by the priority that its limit says by its arguments, or by its own', async () => {
  const [resource, taskQueue] = [temporal.resource(), `limited-${randomUUID()}`];
  const declared = new Semaphore(resource, { capacity: 1, taskQueue: temporal.taskQueue });
  const priority = (callMs: number) => (callMs < 10 ? { priorityKey: 1, fairnessKey: 'short' } : undefined);
  await startWorker({ semaphore: declared, priority }, taskQueue);
  const permit = await new SemaphoreClient(temporal.client, declared).acquire();
  const long = await start(taskQueue, { callMs: 10, startToCloseMs: 60_000, fairnessWeight: 2 });
  const ranks = async () => {
    const { tickets } = await untilWaiting(temporal.client, resource, 1);
    const ofPools = tickets.filter(({ pool }) => pool);
    return ofPools.map(({ priorityKey, fairnessKey, fairnessWeight }) => [priorityKey, fairnessKey, fairnessWeight]);
  };
  assert.deepEqual(await ranks(), [[undefined, undefined, 2]]);
  await permit.release();
  await long.result();
  const again = await new SemaphoreClient(temporal.client, declared).acquire();
  const short = await start(taskQueue, { callMs: 1, startToCloseMs: 60_000 });
  assert.deepEqual(await ranks(), [[1, 'short', undefined]]);
  await again.release();
  await short.result();
});

test('a wait heartbeats: it may be longer than the heartbeat timeout', async () => {
  const resource = temporal.resource();
  const taskQueue = `limited-${randomUUID()}`;
  const client = semaphore(resource, 1);
  await startWorker(client, taskQueue);
  const permit = await client.acquire();
  const heartbeatMs = 4_000;
  const waiting = await start(taskQueue, { callMs: 1, startToCloseMs: 60_000, heartbeatMs, attempts: 1 });
  await until(async () => {
    const { lastStartedTime, lastHeartbeatTime } = (await waiting.describe()).raw.pendingActivities?.[0] ?? {};
    return (optionalTsToMs(lastHeartbeatTime) ?? 0) > (optionalTsToMs(lastStartedTime) ?? Infinity) + heartbeatMs;
  });
  await permit.release();
  assert.equal(FencingToken.parse(await waiting.result()).resource, resource);
});

test('after a wait, an activity has its whole heartbeat timeout for its first heartbeat', async () => {
  const resource = temporal.resource();
  const taskQueue = `limited-${randomUUID()}`;
  const client = semaphore(resource, 1);
  await startWorker(client, taskQueue);
  const permit = await client.acquire();
  now.beatMs = 3_600_000;
  const waiting = await start(taskQueue, { callMs: 60_000, startToCloseMs: 60_000, heartbeatMs: 60_000 });
  await untilWaiting(temporal.client, resource, 1);
  const lastHeartbeat = async () => (await waiting.describe()).raw.pendingActivities?.[0]?.lastHeartbeatTime;
  // The wait itself heartbeats each 20 s; on a machine so slow that it has, this shows nothing.
  await permit.release();
  await until(lastHeartbeat);
  await waiting.terminate();
  await endWorkers();
});

test('a wait ends as retryable before startToCloseTimeout does; a call that is too long times out and is told', async () => {
  const resource = temporal.resource();
  const taskQueue = `limited-${randomUUID()}`;
  const client = semaphore(resource, 1);
  await startWorker(client, taskQueue);
  const permit = await client.acquire();
  const waiting = await start(taskQueue, { callMs: 1, startToCloseMs: 4_000, attempts: 1 });
  const failure = failureOf(await waiting.result().catch((error: unknown) => error));
  assert.equal(failure.type, 'PermitTimeoutError');
  assert.equal(failure.nonRetryable, false);
  assert.equal(now.begun, 0);
  await permit.release();
  const running = await start(taskQueue, { callMs: 60_000, startToCloseMs: 6_000, heartbeatMs: 500, attempts: 1 });
  const error: unknown = await running.result().catch((error: unknown) => error);
  assert.ok(error instanceof WorkflowFailedError && error.cause instanceof ActivityFailure);
  assert.equal(error.cause.cause?.name, 'TimeoutFailure');
  await until(() => now.calls === 0);
});

test('a worker that shuts down lets its waiting activities go to another; those that run are told', async () => {
  const resource = temporal.resource();
  const taskQueue = `limited-${randomUUID()}`;
  const client = semaphore(resource, 1);
  const first = await startWorker(client, taskQueue);
  const permit = await client.acquire();
  const waiting = await start(taskQueue, { callMs: 1, startToCloseMs: 60_000 });
  await eventually(async () => {
    const { raw } = await waiting.describe();
    assert.equal(raw.pendingActivities?.[0]?.attempt, 1);
    assert.ok(raw.pendingActivities?.[0]?.lastStartedTime);
  });
  first.shutdown();
  await running[0]?.ended;
  assert.equal(now.begun, 0);
  await permit.release();
  const second = await startWorker(client, taskQueue);
  assert.equal(FencingToken.parse(await waiting.result()).resource, resource);
  const long = await start(taskQueue, { callMs: 60_000, startToCloseMs: 60_000 });
  await until(() => now.calls === 1);
  second.shutdown();
  await running[1]?.ended;
  assert.equal(now.calls, 0);
  await long.terminate();
});

for (const stopsBy of ['cancellationSignal', 'cancelled', 'sleep'] as const) {
  test(`an activity that loses its permit is told by ${stopsBy}, fails as retryable, and runs again`, async () => {
    now.stopsBy = stopsBy;
    const resource = temporal.resource();
    const taskQueue = `limited-${randomUUID()}`;
    const client = semaphore(resource, 1);
    await startWorker(client, taskQueue);
    const call = await start(taskQueue, { callMs: 60_000, startToCloseMs: 60_000 });
    await until(() => now.calls === 1);
    now.isShort = true; // the second call
    await operatorOf(client).revoke('0', { reason: 'drain' });
    await call.result();
    assert.equal(now.begun, 2);
    assert.deepEqual(
      now.aborted.map((reason) => (reason as Error).name),
      ['PermitLostError'],
    );
  });
}

test('an activity whose token a fence refuses has lost its permit, and runs again under another', async () => {
  const taskQueue = `limited-${randomUUID()}`;
  await startWorker(semaphore(temporal.resource(), 1), taskQueue);
  now.stale = 1;
  const call = await start(taskQueue, { callMs: 0, startToCloseMs: 60_000 });
  assert.match(await call.result(), /./);
  assert.equal(now.begun, 2);
});

test('times and weights that the server takes are no reason to refuse the activity', async () => {
  const taskQueue = `limited-${randomUUID()}`;
  await startWorker(semaphore(temporal.resource(), 1), taskQueue);
  const years = 365 * 24 * 3_600_000;
  const call = await start(taskQueue, { callMs: 0, startToCloseMs: 50 * years, fairnessWeight: 5_000, attempts: 2 });
  assert.match(await call.result(), /./);
});

test('the worker of a plugin gives back the permits of its declared semaphores when it ends', async () => {
  const resource = temporal.resource();
  const taskQueue = `limited-${randomUUID()}`;
  const declared = new Semaphore(resource, { capacity: 2, taskQueue: temporal.taskQueue });
  const worker = await startWorker({ semaphore: declared }, taskQueue);
  const call = await start(taskQueue, { callMs: 1, startToCloseMs: 60_000 });
  await call.result();
  worker.shutdown();
  await running[0]?.ended;
  const permits = await permitsRunning(temporal.client, resource);
  assert.deepEqual(permits, []);
});

test('activities of a key: never more than perKey of one at once, by the key of their arguments', async () => {
  const resource = temporal.resource('keyed');
  const taskQueue = `limited-${randomUUID()}`;
  const semaphore = new Semaphore(resource, { capacity: 4, perKey: 1, taskQueue: temporal.taskQueue });
  const limit = { semaphore, key: (callMs: number) => `of ${callMs}` };
  const connection = await NativeConnection.connect({ address: temporal.env.address });
  const plugins = [pluginFor(limit)];
  const worker = await Worker.create({ connection, activities, taskQueue, plugins });
  running.push({ worker, ended: worker.run().finally(() => connection.close()) });
  const two = [20, 30].map((callMs) =>
    temporal.client.workflow.execute(fourCalls, { ...startOptions(temporal, 'limited'), args: [taskQueue, callMs] }),
  );
  const tokens = (await Promise.all(two)).flat();
  assert.equal(now.begun, 8);
  assert.ok(now.most <= 2, `${now.most} of two keys at once`);
  for (const token of tokens) assert.equal(FencingToken.parse(token).resource, resource);
});

test('limits that are none are refused, and the error names the type', () => {
  const gpus = new Semaphore('gpus', { capacity: 2, taskQueue: 'permits' });
  for (const [limits, message] of [
    [{ callVendor: {} }, /^The limit of "callVendor": semaphore: expected a Semaphore of temporal-semaphore\/workflow/],
    [{ callVendor: { semaphore: gpus, timeout: 5 } }, /^The limit of "callVendor": Unknown option "timeout"/],
    [{ callVendor: { semaphore: gpus, key: () => 'a' } }, /^The limit of "callVendor": key: expected none/],
    [{ callVendor: { semaphore: new Semaphore('a', { capacity: 2, perKey: 1 }) } }, /key: expected a function/],
    [
      { callVendor: { semaphore: gpus }, other: { semaphore: new Semaphore('gpus', { capacity: 3 }) } },
      /^semaphore "gpus": expected one declaration of it for all limits, .*2.*, got .*3/,
    ],
    [null, /^activities: expected an object/],
  ] as const) {
    const activities = limits as unknown as ActivityLimits;
    assert.throws(() => new SemaphorePlugin({ activities }), { name: 'InvalidOptionsError', message });
  }
});

test("a name that is none of the worker's activities is refused before the worker starts", async () => {
  const pool = new PermitPool(semaphore(temporal.resource(), 1));
  pools.push(pool);
  const registered = { ...activities, other: async () => undefined, notOne: 'x' };
  const options = { connection: temporal.env.nativeConnection, taskQueue: 'limited', activities: registered };
  const plugin = new SemaphorePlugin({ activities: { callVendor: pool, callVendro: pool } });
  await assert.rejects(Worker.create({ ...options, plugins: [plugin] }), {
    name: 'InvalidOptionsError',
    message: /^activities: .*\(callVendor, other\), got "callVendro"$/,
  });
  // The SDK calls an activity of this name for each name that it does not know.
  await plugin.configureWorker({ taskQueue: 'of a default', activities: { default: async () => undefined } });
  await plugin.configureWorker({ taskQueue: 'of Workflows alone' });
});
