import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { startServer } from '../../scripts/support/temporal-server';
import { failingTasks, findings } from '../../src/cli/doctor-checks';
import { SemaphoreClient } from '../../src/client';
import { pollersOf } from '../../src/client/server/pollers';
import { eventually } from '../support/temporal';
import { taskQueueOfNobody } from '../support/unpolled';

test('doctor says which Workflow a worker lacks, and the one line that its Workflows file needs', async (t) => {
  const errors: string[] = [];
  Runtime.install({ logger: new DefaultLogger('ERROR', ({ meta }) => errors.push(String(meta?.error))) });
  const env = await startServer();
  t.after(async () => await env.teardown());
  const taskQueue = `half-${randomUUID()}`;
  const worker = await Worker.create({
    connection: env.nativeConnection,
    taskQueue,
    workflowsPath: require.resolve('../support/half-registered-workflows'),
  });
  await worker.runUntil(async () => {
    const pool = new SemaphoreClient(env.client, 'half', { capacity: 1, taskQueue });
    const permit = await pool.acquire();
    assert.deepEqual(await failingTasks(env.client), [], 'a permit alone is well');

    const waiting = new AbortController();
    const waiter = pool.acquire({ signal: waiting.signal }).catch(() => undefined);
    const advice = "Its Workflows file needs: export * from 'temporal-semaphore/workflows';";
    await eventually(async () => {
      const found = await failingTasks(env.client);
      assert.deepEqual(
        found.find(({ what }) => what.includes('awaitTurnWorkflow')),
        {
          is: 'bad',
          what: `a worker of task queue "${taskQueue}" has no awaitTurnWorkflow: 1 Workflow can't go on`,
          advice,
        },
      );
    }, 30_000);
    // The worker's own log names the type too, which docs/troubleshooting.md tells the reader to look for.
    assert.match(errors.join('\n'), /'awaitTurnWorkflow': no such function is exported by the workflow bundle/);
    waiting.abort();
    await permit.release();
    await waiter;
  });
});

test('doctor --probe says that no worker has carried out its release, although the server still lists its pollers', async (t) => {
  const env = await startServer();
  t.after(async () => await env.teardown());
  const taskQueue = taskQueueOfNobody();
  const workflowsPath = require.resolve('../support/half-registered-workflows');
  const worker = await Worker.create({ connection: env.nativeConnection, taskQueue, workflowsPath });
  await worker.runUntil(() => eventually(async () => assert.ok((await pollersOf(env.client, taskQueue)).length > 0)));
  const found = await findings(env.client, { taskQueue, waitingLongerMs: 600_000, probe: true });
  const probe = found.at(-1) ?? assert.fail();
  assert.equal(probe.is, 'bad');
  assert.match(
    probe.what,
    /^no worker on task queue ".*" has carried out the release of permit:temporal-semaphore-doctor:/,
  );
  assert.match(probe.advice ?? '', /^The worker there has probably ended: /);
});
