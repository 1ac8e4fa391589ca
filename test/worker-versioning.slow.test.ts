import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { SemaphoreClient } from '../src/client';
import { eventually, untilWaiting, useTemporal } from './support/temporal';

const temporal = useTemporal({ shared: true });

test('workers of a version that is stopped leave their permits and queues to those of the next', {
  timeout: 90_000,
}, async () => {
  const resource = temporal.resource();
  const [deploymentName, taskQueue] = [`permits-${randomUUID()}`, `versioned-${randomUUID()}`];
  const deploy = async (buildId: string) => {
    const version = { deploymentName, buildId };
    const workerDeploymentOptions = {
      useWorkerVersioning: true,
      version,
      defaultVersioningBehavior: 'AUTO_UPGRADE',
    } as const;
    const worker = await temporal.worker({ taskQueue, workerDeploymentOptions });
    const { workflowService } = temporal.client;
    // The server learns of a version by the first poll of its workers.
    await eventually(() =>
      workflowService.setWorkerDeploymentCurrentVersion({ namespace: 'default', deploymentName, buildId }),
    );
    return worker;
  };
  const first = await deploy('1');
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue });
  const permit = await pool.acquire();
  const waiting = pool.acquire();
  await untilWaiting(temporal.client, resource, 1);
  await deploy('2');
  await first.stop();
  await permit.release();
  const next = await waiting;
  assert.notEqual(next.runId, permit.runId);
  await next.release();
});
