import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, Connection, Client as TemporalClient } from '@temporalio/client';
import { TASK_QUEUE } from '../scripts/support/example-worker';
import { exampleConsumer } from '../scripts/support/example-workflow';
import { findServer } from '../scripts/support/find-server';
import { permitsQuery } from '../scripts/support/holder-intervals';
import { lacking } from '../scripts/support/requirements';
import { freePort, spawnServer } from '../scripts/support/server-process';
import { SemaphoreClient } from '../src/client';
import { startScript } from './support/script';
import { assertSafe, eventually, useTemporal } from './support/temporal';

const temporal = useTemporal({ shared: true });

async function startConsumers(client: Client, resource: string, count: number, holdMs: number) {
  return await Promise.all(
    Array.from({ length: count }, () =>
      client.workflow.start(exampleConsumer, {
        workflowId: `consumer-${randomUUID()}`,
        taskQueue: TASK_QUEUE,
        args: [{ resource, semaphore: { capacity: 3 }, holdMs }],
      }),
    ),
  );
}

async function untilHeld(client: Client, resource: string, count: number): Promise<void> {
  await eventually(async () => {
    const held = await client.workflow.count(`${permitsQuery(resource)} AND ExecutionStatus = "Running"`);
    assert.equal(held.count, count);
  });
}

test('kill -9 of the worker while permits are held: a second worker finishes the job, and the capacity holds', async () => {
  const resource = temporal.resource();
  const env = { TEMPORAL_ADDRESS: temporal.env.address };
  const first = startScript('worker', [], env);
  const consumers = await startConsumers(temporal.client, resource, 8, 2_000);
  await untilHeld(temporal.client, resource, 3);
  await delay(500); // into the activities
  first.child.kill('SIGKILL');
  await first.ended;
  const second = startScript('worker', [], env);
  await Promise.all(consumers.map((consumer) => consumer.result()));
  const holds = await assertSafe(temporal.client, resource, 3);
  assert.equal(holds.length, 8, 'each consumer held once: nobody lost a permit to the crash');
  second.child.kill('SIGTERM');
  assert.equal((await second.ended).code, 0);
});

test('kill -9 of the server while permits are held: once it is back, all get their turn, and the capacity holds', {
  skip: lacking('ownServer'),
}, async () => {
  const source = await findServer();
  assert.ok('path' in source, 'this test starts and kills the server: name a path, not an address');
  const directory = await mkdtemp(join(tmpdir(), 'temporal-semaphore-'));
  const options = { port: await freePort(), dbFilename: join(directory, 'server.db') };
  let server = await spawnServer(source.path, options);
  const worker = startScript('worker', [], { TEMPORAL_ADDRESS: server.address });
  let connection = await Connection.connect({ address: server.address });
  const resource = `pool-${randomUUID().slice(0, 8)}`;
  try {
    const consumers = await startConsumers(new TemporalClient({ connection }), resource, 8, 1_000);
    await untilHeld(new TemporalClient({ connection }), resource, 3);
    await server.stop('SIGKILL');
    await connection.close();
    server = await spawnServer(source.path, options);
    connection = await Connection.connect({ address: server.address });
    const client = new TemporalClient({ connection });
    await Promise.all(consumers.map(({ workflowId }) => client.workflow.getHandle(workflowId).result()));
    const holds = await assertSafe(client, resource, 3);
    assert.equal(holds.length, 8);
  } finally {
    worker.child.kill('SIGTERM');
    await worker.ended;
    await connection.close();
    await server.stop();
    await rm(directory, { recursive: true });
  }
});

test('kill -9 of the server leaves what an operator has set as it was', { skip: lacking('ownServer') }, async () => {
  const source = await findServer();
  assert.ok('path' in source, 'this test starts and kills the server: name a path, not an address');
  const directory = await mkdtemp(join(tmpdir(), 'temporal-semaphore-'));
  const options = { port: await freePort(), dbFilename: join(directory, 'server.db') };
  let server = await spawnServer(source.path, options);
  const worker = startScript('worker', [], { TEMPORAL_ADDRESS: server.address });
  let connection = await Connection.connect({ address: server.address });
  const resource = `pool-${randomUUID().slice(0, 8)}`;
  const pool = () =>
    new SemaphoreClient(new TemporalClient({ connection }), resource, { capacity: 2, taskQueue: TASK_QUEUE });
  const drained = async () =>
    await eventually(async () => {
      const { slots, override, queue } = await pool().inspect();
      assert.equal(queue, 'running', 'its worker answers again');
      assert.equal(slots[1]?.state, 'drained');
      return { override, runId: slots[1]?.permit?.runId };
    }, 20_000);
  try {
    const set = await pool().resize(1, { reason: 'small', timeout: '1 minute' }); // the worker is still starting
    const before = await drained();
    await server.stop('SIGKILL');
    await connection.close();
    server = await spawnServer(source.path, options);
    connection = await Connection.connect({ address: server.address });
    assert.deepEqual(await drained(), before);
    assert.deepEqual(before.override, set);
    await pool().resize(2, { ifVersion: set.version, timeout: '30s' });
    await eventually(async () => assert.equal((await pool().inspect()).slots[1]?.state, 'free'));
  } finally {
    worker.child.kill('SIGTERM');
    await worker.ended;
    await connection.close();
    await server.stop();
    await rm(directory, { recursive: true });
  }
});
