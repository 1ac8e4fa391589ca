import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { NativeConnection, Worker, type WorkerOptions, type WorkerPlugin } from '@temporalio/worker';
import { SemaphoreClient } from '../../src/client';
import { pollersOf } from '../../src/client/server/pollers';
import { createPermitWorker, type PermitWorkerOptions, SemaphorePlugin } from '../../src/worker';
import { Semaphore } from '../../src/workflow';
import { eventually, useTemporal } from '../support/temporal';
import { taskQueueOfNobody } from '../support/unpolled';

const temporal = useTemporal({ shared: true });

test('a permit worker that can not be made tells why, and leaves a connection that can be closed', async () => {
  const connection = await NativeConnection.connect({ address: temporal.env.address });
  const bundlerOptions = {
    webpackConfigHook: () => {
      throw new Error('no bundle');
    },
  };
  const plugins = [new SemaphorePlugin({ taskQueue: `permits-${randomUUID()}`, permitWorker: { bundlerOptions } })];
  const taskQueue = `own-${randomUUID()}`;
  const worker = await Worker.create({ connection, taskQueue, plugins, activities: { none: async () => {} } });
  await assert.rejects(worker.run(), /no bundle/);
  const slow: WorkerPlugin = {
    name: 'slow',
    runWorker: async (worker, next) => {
      await delay(500);
      await next(worker);
    },
  };
  const options = { connection, taskQueue, activities: { none: async () => {} } };
  const begunLate = await Worker.create({ ...options, plugins: [...plugins, slow] });
  const failed = Promise.race([begunLate.run(), delay(60_000, 'runs on', { ref: false })]);
  await assert.rejects(
    failed.finally(() => begunLate.getState() === 'RUNNING' && begunLate.shutdown()),
    /no bundle/,
  );
  await connection.close();
  assert.throws(() => new SemaphorePlugin({ taskQueue, permitWorker: { workflowsPath: 'x' } as object }), {
    name: 'InvalidOptionsError',
  });
});

test('a permit worker breaks no Workflow off in the middle, however long the machine has stopped it', async () => {
  const { nativeConnection: connection } = temporal.env;
  const worker = await createPermitWorker({ connection, taskQueue: `permits-${randomUUID()}` });
  await worker.runUntil(async () => undefined);
  const { isolateExecutionTimeoutMs } = worker.options;
  assert.equal(isolateExecutionTimeoutMs, 2 ** 32 - 1, "the SDK has no option 'isolateExecutionTimeout' any more");
});

test('where no metrics are exported, a permit worker hears of no line, and so asks about no waiter', async () => {
  const { nativeConnection: connection } = temporal.env;
  const worker = await createPermitWorker({ connection, taskQueue: `permits-${randomUUID()}` });
  const { setMetricGaugeValue: gauge } = worker.options.sinks?.__temporal_metrics ?? {};
  const { fn } = gauge ?? {};
  await worker.runUntil(async () => undefined);
  assert.ok(fn && gauge?.fn === fn);
});

test('permits run on the task queue "permits" unless their worker is told otherwise', async () => {
  const { nativeConnection: connection } = temporal.env;
  const dedicated = await createPermitWorker({ connection });
  assert.equal(dedicated.options.taskQueue, 'permits');
  await dedicated.runUntil(async () => undefined);
  const resource = temporal.resource();
  const taskQueue = `own-${randomUUID()}`;
  const activities = { none: async () => {} };
  const worker = await Worker.create({ connection, taskQueue, plugins: [new SemaphorePlugin()], activities });
  await worker.runUntil(async () => {
    const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1 });
    await semaphore.withPermit(async () => undefined);
  });
});

test('a plugin without a permit worker warns if no worker polls the permits, and not if one does', async () => {
  const { nativeConnection: connection } = temporal.env;
  const warnings: string[] = [];
  const listen = ({ code, message }: Error & { code?: string }) => {
    if (code === 'TEMPORAL_SEMAPHORE_UNPOLLED') warnings.push(message);
  };
  process.on('warning', listen);
  try {
    const semaphore = new Semaphore('gpus', { capacity: 1, taskQueue: taskQueueOfNobody() });
    const limited = { permitWorker: false, activities: { none: { semaphore } } } as const;
    for (const [options, unpolled] of [
      [{ permitWorker: false, taskQueue: temporal.taskQueue }, []],
      [{ ...limited, taskQueue: taskQueueOfNobody() }, [2]],
      [{ ...limited, taskQueue: temporal.taskQueue }, [1]],
    ] as const) {
      const plugins = [new SemaphorePlugin(options)];
      const taskQueue = `own-${randomUUID()}`;
      const worker = await Worker.create({ connection, taskQueue, plugins, activities: { none: async () => {} } });
      warnings.length = 0;
      const [most] = unpolled;
      await worker.runUntil(async () => {
        if (most === undefined) await delay(7_000);
        else await eventually(async () => assert.equal(warnings.length, most));
      });
      assert.equal(warnings.length, most ?? 0);
      for (const message of warnings)
        assert.match(message, /^no worker polls .* \(temporal-semaphore worker --task-queue nobody-/);
    }
  } finally {
    process.off('warning', listen);
  }
});

test("the plugin refuses the worker's own task queue", async () => {
  assert.throws(() => new SemaphorePlugin({ taskQueue: '' }), { name: 'InvalidOptionsError' });
  const plugins = [new SemaphorePlugin({ taskQueue: 'one' })];
  const { nativeConnection: connection } = temporal.env;
  await assert.rejects(Worker.create({ connection, taskQueue: 'one', plugins, activities: {} }), {
    name: 'InvalidOptionsError',
    message: /^taskQueue: expected another than your own worker's/,
  });
  assert.throws(
    () => new SemaphorePlugin({ permitWorker: true as false }),
    /permitWorker: expected options of .*, or false/,
  );
});

test('a second plugin whose permits this connection runs already is refused, and so is one plugin in two workers', async () => {
  const { nativeConnection: connection } = temporal.env;
  const permitQueue = `permits-${randomUUID()}`;
  const activities = { none: async () => {} };
  const create = async (plugin: SemaphorePlugin) =>
    await Worker.create({ connection, taskQueue: `own-${randomUUID()}`, activities, plugins: [plugin] });
  const plugin = new SemaphorePlugin({ taskQueue: permitQueue });
  const first = await create(plugin);
  const [second, again, third] = [
    await create(new SemaphorePlugin({ taskQueue: permitQueue })),
    await create(plugin),
    await create(new SemaphorePlugin({ taskQueue: permitQueue, permitWorker: false })),
  ];
  await first.runUntil(async () => {
    await eventually(async () => assert.ok((await pollersOf(temporal.client, permitQueue)).length > 0));
    const refused = (message: RegExp) => ({ name: 'InvalidOptionsError', message });
    await assert.rejects(
      second.run(),
      refused(/^taskQueue: expected .* give the second .* permitWorker: false, got "/),
    );
    await assert.rejects(again.run(), refused(/^plugins: expected a SemaphorePlugin for each worker, got "one that/));
    await third.runUntil(async () => undefined);
    assert.equal(first.getState(), 'RUNNING');
  });
});

const taskQueue = 'permits';
for (const [what, options, message] of [
  ['no options', undefined, /^options: expected an object, got undefined$/],
  ['an empty task queue', { taskQueue: '' }, /^taskQueue: expected a non-empty string, got ""$/],
  ['an empty namespace', { taskQueue, namespace: '' }, /^namespace: expected a non-empty string, got ""$/],
  [
    "a client's connection",
    { taskQueue, connection: new Map() },
    /^connection: expected a NativeConnection .* got a Map$/,
  ],
  [
    'the connection of another copy of the SDK',
    { taskQueue, connection: new (class NativeConnection {})() },
    /got a NativeConnection of another copy .* `npm ls` shows/,
  ],
  ['null for a connection', { taskQueue, connection: null }, /^connection: expected a NativeConnection /],
  [
    'activities',
    { taskQueue, activities: {} } satisfies WorkerOptions,
    /^activities: expected nothing .* got "object"$/,
  ],
] as const) {
  test(`refuses ${what}`, async () => {
    await assert.rejects(createPermitWorker(options as unknown as PermitWorkerOptions), {
      name: 'InvalidOptionsError',
      message,
    });
  });
}
