import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Client, Connection, Client as TemporalClient } from '@temporalio/client';
import { TASK_QUEUE } from '../../scripts/support/example-worker';
import { exampleConsumer } from '../../scripts/support/example-workflow';
import { findServer } from '../../scripts/support/find-server';
import { lacking } from '../../scripts/support/requirements';
import { freePort, spawnServer } from '../../scripts/support/server-process';
import { Operator } from '../../src/operator';
import { startScript } from '../support/script';
import { assertSafe, eventually, until, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });

const STARTED = 2;

async function startConsumers(client: Client, resource: string, holdMs: number) {
  return await Promise.all(
    Array.from({ length: 8 }, () =>
      client.workflow.start(exampleConsumer, {
        workflowId: `consumer-${randomUUID()}`,
        taskQueue: TASK_QUEUE,
        args: [{ resource, semaphore: { capacity: 3, lease: '2 minutes' }, holdMs }],
      }),
    ),
  );
}

/** Waits until one of them holds, and its activity runs. */
async function untilWorking(client: Client, consumers: readonly { workflowId: string }[]): Promise<void> {
  await until(async () => {
    const runs = await Promise.all(consumers.map(({ workflowId }) => client.workflow.getHandle(workflowId).describe()));
    return runs.some(({ raw }) => raw.pendingActivities?.some(({ state }) => state === STARTED));
  });
}

test('kill -9 of the worker while permits are held: a second worker finishes the job, and the capacity holds', async () => {
  const resource = temporal.resource();
  const env = { TEMPORAL_ADDRESS: temporal.env.address };
  const first = startScript('worker', [], env);
  await first.says(/Worker on task queue/);
  const consumers = await startConsumers(temporal.client, resource, 2_000);
  await untilWorking(temporal.client, consumers);
  first.child.kill('SIGKILL');
  await first.ended;
  const second = startScript('worker', [], env);
  await Promise.all(consumers.map((consumer) => consumer.result()));
  const holds = await assertSafe(temporal.client, resource, 3);
  assert.equal(holds.length, 8, 'each consumer held once: nobody lost a permit to the crash');
  second.child.kill('SIGTERM');
  assert.equal((await second.ended).code, 0);
});

test('kill -9 of the server while permits are held: once it is back, all get their turn, the capacity holds, and what an operator has set is as it was', {
  skip: lacking('ownServer'),
}, async () => {
  const source = await findServer();
  assert.ok('path' in source, 'this test starts and kills the server: name a path, not an address');
  const directory = await mkdtemp(join(tmpdir(), 'temporal-semaphore-'));
  const options = { port: await freePort(), dbFilename: join(directory, 'server.db') };
  let server = await spawnServer(source.path, options);
  const worker = startScript('worker', [], { TEMPORAL_ADDRESS: server.address });
  let connection = await Connection.connect({ address: server.address });
  let client = new TemporalClient({ connection });
  const resource = `pool-${randomUUID().slice(0, 8)}`;
  const small = `small-${resource}`;
  const operator = () => new Operator(client, small, { capacity: 2, taskQueue: TASK_QUEUE });
  const drained = async () =>
    await eventually(async () => {
      const { slots, override, queue } = await operator().inspect();
      assert.equal(queue, 'running', 'its worker answers again');
      assert.equal(slots[1]?.state, 'drained');
      return { override, runId: slots[1]?.permit?.runId };
    });
  try {
    await worker.says(/Worker on task queue/);
    const set = await operator().resize(1, { reason: 'small' });
    const before = await drained();
    assert.deepEqual(before.override, set);
    const consumers = await startConsumers(client, resource, 1_000);
    await untilWorking(client, consumers);
    await server.stop('SIGKILL');
    await connection.close();
    server = await spawnServer(source.path, options);
    connection = await Connection.connect({ address: server.address });
    client = new TemporalClient({ connection });
    await Promise.all(consumers.map(({ workflowId }) => client.workflow.getHandle(workflowId).result()));
    assert.equal((await assertSafe(client, resource, 3)).length, 8);
    assert.deepEqual(await drained(), before);
    await operator().resize(2, { ifVersion: set.version, timeout: '1 minute' });
    await eventually(async () => assert.equal((await operator().inspect()).slots[1]?.state, 'free'));
  } finally {
    worker.child.kill('SIGTERM');
    await worker.ended;
    await connection.close();
    await server.stop();
    await rm(directory, { recursive: true });
  }
});
