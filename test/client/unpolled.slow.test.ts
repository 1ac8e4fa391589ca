import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { acquireAll, NoAnswerError, SemaphoreClient } from '../../src/client';
import { permitId } from '../../src/shared/permit-id';
import { CliProcess } from '../support/cli-process';
import { startOptions } from '../support/holders';
import { until, useTemporal } from '../support/temporal';
import { isUnpolled, nobodyPolls, taskQueueOfNobody } from '../support/unpolled';
import { type SetInput, setHolder } from '../support/workflows';

// A holder gives up its release 14 s after it found that nobody runs permits, and not only when the lease ends.

const temporal = useTemporal({ shared: true });

const LEASE = '10m';
const options = { timeout: 300_000 };

test('run says that nobody runs permits, and keeps neither its exit code nor the user waiting', options, async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const to = ['--address', temporal.env.address, '--task-queue', taskQueue, '--lease', LEASE];
  const run = new CliProcess(['run', resource, '--capacity', '1', ...to, '--', 'sh', '-c', 'echo ran; exit 3']);
  assert.equal(await run.exit, 3);
  assert.equal(run.stdout, 'ran\n');
  assert.ok(run.stderr.includes(nobodyPolls(taskQueue)), run.stderr);
  await temporal.worker({ taskQueue }); // the release comes into effect
});

test("a client's release says so by its error", options, async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: LEASE });
  const permit = await semaphore.acquire();
  await assert.rejects(permit.release(), isUnpolled(taskQueue, NoAnswerError));
  await temporal.worker({ taskQueue });
  assert.equal(await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).result(), 'released');
});

for (const [whose, hold] of [
  [
    'a client',
    async (pools: SetInput['pools']) => {
      const clients = pools.map(({ resource, semaphore }) => new SemaphoreClient(temporal.client, resource, semaphore));
      await (await acquireAll(clients)).release().catch(() => undefined); // it says that no worker polls
    },
  ],
  [
    'a Workflow',
    async (pools: SetInput['pools']) => {
      await temporal.client.workflow.start(setHolder, { ...startOptions(temporal), args: [{ pools, holdMs: 1 }] });
    },
  ],
] as const) {
  test(
    `of a set of ${whose}, a permit without a worker does not keep the others from being released`,
    options,
    async () => {
      const [a, b, taskQueue] = [temporal.resource('a'), temporal.resource('b'), taskQueueOfNobody()];
      const semaphore = { capacity: 1, lease: LEASE } as const;
      const pools = [
        { resource: a, semaphore: { ...semaphore, taskQueue: temporal.taskQueue } },
        { resource: b, semaphore: { ...semaphore, taskQueue } },
      ];
      const held = hold(pools);
      const first = temporal.client.workflow.getHandle(permitId({ resource: a, slot: '0' }));
      const last = temporal.client.workflow.getHandle(permitId({ resource: b, slot: '0' }));
      await until(async () => (await first.describe()).status.name === 'COMPLETED', 8_000); // it waits for no other
      assert.equal((await last.describe()).status.name, 'RUNNING');
      await temporal.worker({ taskQueue });
      assert.equal(await last.result(), 'released');
      await held;
    },
  );
}

test('an acquire that is aborted as its claim wins rejects with its reason, and gives the permit back once a worker is up', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const stopped = new AbortController();
  const abortsOnStart: WorkflowClientInterceptor = {
    start: async (input, next) => {
      const runId = await next(input);
      stopped.abort(new Error('no more'));
      return runId;
    },
  };
  const { connection } = temporal.client;
  const client = new Client({ connection, interceptors: { workflow: [abortsOnStart] } });
  const semaphore = new SemaphoreClient(client, resource, { capacity: 1, taskQueue, lease: '10m' });
  await assert.rejects(semaphore.acquire({ signal: stopped.signal }), /no more/);
  await temporal.worker({ taskQueue });
  const handle = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
  assert.equal(await handle.result(), 'released');
});

test('permits that were all had are kept, although the permit that allowed to accumulate them is not free yet', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 2, taskQueue, lease: '10m' });
  const set = await acquireAll([{ of: semaphore, permits: 2 }], { timeout: '5s' });
  assert.deepEqual(set.permits[0].map(({ slot }) => slot).sort(), ['0', '1']);
  await temporal.worker({ taskQueue });
  await set.release();
  const accumulator = temporal.client.workflow.getHandle(permitId({ resource: `${resource}~set`, slot: '0' }));
  assert.equal(await accumulator.result(), 'released');
});
