import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import type { VersioningBehavior } from '@temporalio/common';
import type { WorkerDeploymentOptions } from '@temporalio/worker';
import { bundleWorkflows } from '../../../scripts/support/workflow-bundles';
import { SemaphoreClient } from '../../../src/client';
import { TURN } from '../../../src/shared/protocol';
import { createPermitWorker } from '../../../src/worker';
import { untilAt } from '../../support/holders';
import { eventually, type RunningWorker, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

/** Starts a worker of a version: the SDK's, or a permit worker. */
type Start = (taskQueue: string, version: WorkerDeploymentOptions) => Promise<RunningWorker>;

const holders: Start = async (taskQueue, workerDeploymentOptions) =>
  await temporal.worker({
    ...{ taskQueue, workerDeploymentOptions },
    workflowBundle: await bundleWorkflows(require.resolve('../../support/versioned-workflows')),
  });

const permits: Start = async (taskQueue, workerDeploymentOptions) => {
  const connection = temporal.env.nativeConnection;
  const worker = await createPermitWorker({ connection, taskQueue, workerDeploymentOptions });
  const running = worker.run();
  const stop = async () => {
    if (worker.getState() === 'RUNNING') worker.shutdown();
    await running;
  };
  permitWorkers.push(stop);
  return { stop };
};

const permitWorkers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const stop of permitWorkers.splice(0)) await stop();
});

/** A task queue whose workers have versions. */
function deployment(start: Start, defaultVersioningBehavior: VersioningBehavior) {
  const [deploymentName, taskQueue] = [`deployment-${randomUUID()}`, `versioned-${randomUUID()}`];
  const deploy = async (buildId: string) => {
    const version = { deploymentName, buildId };
    const worker = await start(taskQueue, { useWorkerVersioning: true, version, defaultVersioningBehavior });
    const { workflowService } = temporal.client;
    // The server learns of a version by the first poll of its workers.
    await eventually(() =>
      workflowService.setWorkerDeploymentCurrentVersion({ namespace: 'default', deploymentName, buildId }),
    );
    return worker;
  };
  return { taskQueue, deploy };
}

test('permits and queues of clients go on when the version that started them is gone', {
  timeout: 90_000,
}, async () => {
  const resource = temporal.resource();
  const { taskQueue, deploy } = deployment(permits, 'PINNED');
  const first = await deploy('1');
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue });
  const permit = await semaphore.acquire();
  const waiting = semaphore.acquire();
  await untilWaiting(temporal.client, resource, 1);
  await deploy('2');
  await first.stop();
  await permit.release();
  const next = await waiting;
  assert.notEqual(next.runId, permit.runId);
  await next.release();
});

for (const behavior of ['PINNED', 'AUTO_UPGRADE'] as const) {
  for (const where of ["on the holders' task queue", 'on a task queue apart'] as const) {
    test(`a version drains whose ${behavior} holders had permits ${where}`, { timeout: 180_000 }, async () => {
      const resource = temporal.resource();
      const own = deployment(holders, behavior);
      const apart = where === 'on a task queue apart' ? deployment(permits, 'PINNED') : undefined;
      const start = (name: string) =>
        temporal.client.workflow.start(workflows.holder, {
          workflowId: `${name}-${resource}`,
          taskQueue: own.taskQueue,
          args: [{ resource, semaphore: { capacity: 1, taskQueue: apart?.taskQueue ?? own.taskQueue } }],
        });

      const [firstHolders, firstPermits] = [await own.deploy('1'), await apart?.deploy('1')];
      const held = await start('held');
      await untilAt(held, 'holding');
      const waited = await start('waited');
      await untilWaiting(temporal.client, resource, 1); // so the first version has started the queue

      await Promise.all([own.deploy('2'), apart?.deploy('2')]);
      await firstPermits?.stop();
      const newer = await start('newer');
      await untilWaiting(temporal.client, resource, 2);
      await finish(held);
      await untilAt(waited, 'holding');
      await finish(waited);
      await untilAt(newer, 'holding');
      await firstHolders.stop(); // none of its holders runs

      const last = await start('last');
      await untilWaiting(temporal.client, resource, 1);
      await finish(newer);
      await untilAt(last, 'holding');
      await finish(last);
      for (const waiter of [waited, newer, last]) {
        assert.ok(await hadTurn(waiter), `${waiter.workflowId} helped itself to a slot: the queue was stuck`);
      }
    });
  }
}

async function finish(holder: WorkflowHandle<typeof workflows.holder>): Promise<void> {
  await holder.signal(workflows.finish);
  assert.equal((await holder.result()).at, 'done');
}

/** Whether the queue has sent it a turn, so that it did not have to try slots by itself. */
async function hadTurn(waiter: WorkflowHandle): Promise<boolean> {
  const { events } = await waiter.fetchHistory();
  return (events ?? []).some((event) => event.workflowExecutionSignaledEventAttributes?.signalName === TURN);
}
