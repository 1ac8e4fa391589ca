import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from '@temporalio/worker';
import { bundleWorkflows } from '../scripts/support/workflow-bundles';
import { SemaphoreClient } from '../src/client';
import { queueId } from '../src/shared/permit-id';
import { endWithTests } from './support/children';
import { startOptions } from './support/holders';
import { operatorOf } from './support/operators';
import { untilWaiting, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal();

async function startWorker(taskQueue: string) {
  const args = [temporal.env.address, taskQueue];
  const worker = endWithTests(fork(require.resolve('./support/worker-main'), args, { execArgv: ['--import', 'tsx'] }));
  await once(worker, 'message');
  return worker;
}

/**
 * An operator's order waits for a worker. The one that takes the queue over gets it in one activation with the signals before,
 * if these had no commands as their answers. In a replay each has its own.
 */
test('an order that waits for a new worker leaves a history that replays', async () => {
  const taskQueue = `${temporal.taskQueue}-order`;
  const semaphore = new SemaphoreClient(temporal.client, temporal.resource(), { capacity: 3, taskQueue });
  const operator = operatorOf(semaphore);
  const first = await startWorker(taskQueue);
  await operator.resize(2); // the queue keeps the third slot out of use, so it has no timer of its own
  const [one, other] = [await semaphore.acquire(), await semaphore.acquire()];
  const enough = new AbortController();
  const waiting = semaphore.acquire({ signal: enough.signal });
  await untilWaiting(temporal.client, semaphore.resource, 1);
  enough.abort();
  await assert.rejects(waiting);
  await untilWaiting(temporal.client, semaphore.resource, 0);
  await delay(2_000); // the timer for the waiter has rung
  for (const permit of [one, other]) {
    await permit.release();
    await delay(1_000); // the queue has heard of it, and has nothing to do
  }
  first.kill('SIGKILL');
  await once(first, 'exit');
  const paused = operator.pause();
  await delay(2_000);
  await startWorker(taskQueue);
  await paused;
  const workflowId = queueId(semaphore.resource);
  const history = await temporal.client.workflow.getHandle(workflowId).fetchHistory();
  const workflowBundle = await bundleWorkflows(require.resolve('./support/workflows'));
  await Worker.runReplayHistory({ workflowBundle }, history, workflowId);
  await operator.resume();
  await operator.resize(3);
});

/** A query waits for a worker. Meanwhile a signal comes. The worker that then takes the Workflow over may answer the query first. */
test('a defect of SDK 1.24.0 that docs/reliability.md tells of: when this fails, the SDK has mended it', async (t) => {
  const taskQueue = `${temporal.taskQueue}-takeover`;
  const first = await startWorker(taskQueue);
  const start = () =>
    temporal.client.workflow.start(workflows.signalClock, { ...startOptions(temporal, 'clock'), taskQueue });
  const handles = await Promise.all(Array.from({ length: 10 }, start));
  await delay(1_500);
  first.kill('SIGKILL');
  await once(first, 'exit');
  const queries = handles.map((handle) => handle.query(workflows.stage));
  await delay(1_500);
  await Promise.all(handles.map((handle) => handle.signal(workflows.finish)));
  await startWorker(taskQueue);
  await Promise.all(queries);
  const sawMs = await Promise.all(handles.map((handle) => handle.result()));
  t.diagnostic(`milliseconds from the start to the signal, as each Workflow saw them: ${sawMs.join(', ')}`);
  assert.ok(
    sawMs.some((ms) => ms < 1_000),
    'all were given the right time',
  );
});
