import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, test } from 'node:test';
import { Context } from '@temporalio/activity';
import { NativeConnection, Worker } from '@temporalio/worker';
import { SemaphoreClient } from '../../src/client';
import { currentFencingToken, FencingToken } from '../../src/fencing';
import { Operator } from '../../src/operator';
import { SemaphorePlugin } from '../../src/worker';
import { Semaphore } from '../../src/workflow';
import { serverHas } from '../support/standalone-activities';
import { eventually, until, untilWaiting, useTemporal } from '../support/temporal';

// Activities that a client starts, without a Workflow: servers have them from 1.32 on. `pnpm versions` runs this file there.

const temporal = useTemporal({ shared: true });

/** What the jobs do, and did. */
const atFirst = () => ({ running: 0, most: 0, begun: 0, stopped: [] as string[] });
const now = atFirst();

const activities = {
  /** Works for that long, or until it is told to stop. It gives its token. */
  async job(ms: number): Promise<string> {
    const context = Context.current();
    const beats = setInterval(context.heartbeat, 100); // by its heartbeats it hears that it is to stop
    now.begun++;
    now.most = Math.max(now.most, ++now.running);
    try {
      await context.sleep(ms);
      return String(currentFencingToken());
    } catch (error) {
      now.stopped.push((error as Error).message);
      throw error;
    } finally {
      clearInterval(beats);
      now.running--;
    }
  },
};

let stop: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const end of stop) await end();
  stop = [];
  Object.assign(now, atFirst());
});

/** A worker whose jobs are limited by a semaphore of that capacity. */
async function startWorker(resource: string, capacity: number) {
  const semaphore = new Semaphore(resource, { capacity, taskQueue: temporal.taskQueue });
  const taskQueue = `jobs-${randomUUID()}`;
  const connection = await NativeConnection.connect({ address: temporal.env.address });
  const worker = await Worker.create({
    connection,
    taskQueue,
    activities,
    plugins: [
      new SemaphorePlugin({ taskQueue: temporal.taskQueue, permitWorker: false, activities: { job: { semaphore } } }),
    ],
    maxHeartbeatThrottleInterval: '200ms',
  });
  const ended = worker.run().finally(() => connection.close());
  stop.push(async () => {
    worker.shutdown();
    await ended;
  });
  const client = new SemaphoreClient(temporal.client, semaphore);
  const start = (ms: number) =>
    temporal.client.activity.start<string>('job', {
      id: `job-${randomUUID()}`,
      taskQueue,
      args: [ms],
      startToCloseTimeout: '10 minutes',
      heartbeatTimeout: '6s',
    });
  return { client, start };
}

test('of 12 jobs without a Workflow never more run at once than the limit says, each under a token', async (context) => {
  if (!(await serverHas('standaloneActivities', temporal.client, context))) return;
  const resource = temporal.resource();
  const { start } = await startWorker(resource, 2);
  const jobs = await Promise.all(Array.from({ length: 12 }, () => start(50)));
  const tokens = await Promise.all(jobs.map((job) => job.result()));
  assert.equal(now.begun, 12);
  assert.ok(now.most <= 2, `${now.most} at once`);
  for (const token of tokens) assert.equal(FencingToken.parse(token).resource, resource);
});

test('a job that is cancelled while it waits has not run; one that runs hears of it, and gives its permit back', async (context) => {
  if (!(await serverHas('standaloneActivities', temporal.client, context))) return;
  const resource = temporal.resource();
  const { client, start } = await startWorker(resource, 1);
  const permit = await client.acquire();
  const waiting = await start(60_000);
  await untilWaiting(temporal.client, resource, 1);
  await waiting.cancel('not needed');
  await untilWaiting(temporal.client, resource, 0);
  await assert.rejects(waiting.result(), { name: 'ActivityExecutionFailedError' });
  assert.equal(now.begun, 0);
  await permit.release();
  const running = await start(60_000);
  await until(() => now.running === 1);
  await running.cancel('not needed');
  await assert.rejects(running.result(), { name: 'ActivityExecutionFailedError' });
  assert.equal(now.begun, 1);
  assert.equal(now.stopped.length, 1);
});

test('a job that is paused leaves the line, or gives its permit back, and goes on when the pause is over', async (context) => {
  if (!(await serverHas('standaloneActivityOperatorCommands', temporal.client, context))) return;
  const resource = temporal.resource();
  const { client, start } = await startWorker(resource, 1);
  const operator = new Operator(temporal.client, resource, { capacity: 1 });
  const permit = await client.acquire();
  const job = await start(1_000);
  await untilWaiting(temporal.client, resource, 1);
  await job.pause({ reason: 'an incident' });
  await untilWaiting(temporal.client, resource, 0);
  assert.equal(now.begun, 0);
  await job.unpause();
  await untilWaiting(temporal.client, resource, 1);
  await permit.release();

  const long = await start(60_000); // it waits behind the first
  assert.equal(FencingToken.parse(await job.result()).resource, resource);
  await until(() => now.running === 1);
  const { permit: held } = (await operator.inspect({ recent: 0 })).slots[0] ?? {};
  assert.equal(held?.holder.identity?.includes('@'), true, 'the process of the worker');
  assert.equal(held?.purpose, 'job');
  await long.pause({ reason: 'an incident' });
  await eventually(async () => assert.equal((await operator.inspect({ recent: 0 })).slots[0]?.state, 'free'));
  assert.deepEqual(now.stopped, ['PAUSED']);
  await long.unpause();
  await until(() => now.running === 1);
  assert.equal(now.most, 1);
  await long.terminate('done');
  await until(() => now.running === 0);
});
