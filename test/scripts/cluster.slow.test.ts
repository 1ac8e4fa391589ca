import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { type Cluster, startCluster } from '../../scripts/support/cluster';
import type { ReportedHold } from '../../scripts/support/holder-intervals';
import { SemaphoreClient } from '../../src/client';
import { Pollers } from '../../src/client/server/pollers';
import { Server } from '../../src/client/server/server';
import { createPermitWorker } from '../../src/worker';
import { assertSafe, eventually } from '../support/temporal';

let cluster: Cluster;
let connection: Connection;

/** The SDK's own word on calls that it repeats is left out. */
const QUIET = { logger: new DefaultLogger('ERROR'), telemetryOptions: { logging: { filter: 'OFF', forward: {} } } };

before(async () => {
  Runtime.install(QUIET);
  cluster = await startCluster({ progress: (line) => console.error(line) });
  connection = await Connection.connect({ address: cluster.address });
});

after(async () => {
  await connection?.close();
  await cluster?.stop();
});

test('on a cluster, no slot has two holders and nobody goes unserved while nodes and PostgreSQL are killed', async () => {
  const client = new Client({ connection });
  const taskQueue = `permits-${randomUUID()}`;
  const native = await NativeConnection.connect({ address: cluster.address });
  const worker = await createPermitWorker({ connection: native, taskQueue });
  const resource = `cluster-${randomUUID().slice(0, 8)}`;
  const reported: ReportedHold[] = [];
  let ending = false;

  await worker.runUntil(async () => {
    const holders = Array.from({ length: 6 }, async () => {
      const semaphore = new SemaphoreClient(client, resource, { capacity: 3, taskQueue });
      while (!ending) {
        const permit = await semaphore.acquire();
        const hold: ReportedHold = { runId: permit.runId, fromMs: Date.now() };
        reported.push(hold);
        await delay(200);
        hold.toMs = Date.now();
        await permit.release();
      }
    });
    /** Grants go on: three more of them. */
    const goOn = async () => {
      const before = reported.length;
      await eventually(async () => assert.ok(reported.length >= before + 3, 'no more grants'), 90_000);
    };

    await goOn();
    const calm = await cluster.shards();
    assert.equal(calm.A + calm.B, 64);
    assert.ok(calm.A > 0 && calm.B > 0, `one node has all shards: ${JSON.stringify(calm)}`);

    await cluster.killNode('B');
    await goOn();
    await eventually(async () => assert.deepEqual(await cluster.shards(), { A: 64, B: 0 }));
    await cluster.startNode('B');
    await eventually(async () => assert.deepEqual(await cluster.shards(), calm));
    await goOn();

    await cluster.stopPostgres('crash');
    await cluster.startPostgres();
    await goOn();

    ending = true;
    await Promise.all(holders);
  });
  await native.close();

  const holds = await assertSafe(client, resource, 3, reported);
  assert.equal(holds.length, reported.length);
});

test("an idle worker is not taken for a missing one while its task queue's partitions move from node to node", async () => {
  const client = new Client({ connection });
  const native = await NativeConnection.connect({ address: cluster.address });
  const taskQueues = Array.from({ length: 6 }, () => `idle-${randomUUID()}`);
  const workers = await Promise.all(
    taskQueues.map((taskQueue) => createPermitWorker({ connection: native, taskQueue })),
  );
  const running = workers.map((worker) => worker.run());
  const all = taskQueues.map((taskQueue) => new Pollers(new Server(client), taskQueue));
  await eventually(async () => {
    const none = await Promise.all(all.map((pollers) => pollers.areNone()));
    assert.ok(!none.includes(true));
  });
  for (const move of [() => cluster.killNode('B'), () => cluster.startNode('B')]) {
    await move();
    for (const untilMs = Date.now() + 15_000; Date.now() < untilMs; ) {
      const absent = await Promise.all(all.map((pollers) => pollers.areAbsent(new AbortController().signal)));
      assert.deepEqual(absent, Array(all.length).fill(false));
    }
  }
  for (const worker of workers) worker.shutdown();
  await Promise.all(running);
  await native.close();
});
