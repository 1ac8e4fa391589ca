import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { NoAnswerError, PermitTimeoutError, SemaphoreClient } from '../src/client';
import { permitId, queueId } from '../src/shared/permit-id';
import { QUEUE_WORKFLOW } from '../src/shared/protocol';
import { CliProcess } from './support/cli-process';
import { eventually, useTemporal } from './support/temporal';

// Where nobody runs permits, that is said, and it is not taken for a full pool. Each test ends with a worker: what was
// asked for meanwhile takes effect then.

const temporal = useTemporal({ shared: true });

const taskQueueOfNobody = () => `nobody-${randomUUID()}`;

const isUnpolled = (taskQueue: string, type: typeof NoAnswerError | typeof PermitTimeoutError) => (error: unknown) => {
  assert.ok(error instanceof type, String(error));
  assert.equal(error.unpolled, taskQueue);
  assert.ok(error.message.includes(`nobody polls task queue "${taskQueue}"`), error.message);
  assert.ok(!error.message.includes('all slots are held'), error.message);
  return true;
};

test('run says that nobody runs permits, and keeps neither its exit code nor the user waiting', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const run = (...flags: string[]) => {
    const to = ['--address', temporal.env.address, '--task-queue', taskQueue, '--lease', '10m'];
    return new CliProcess(['run', resource, '--capacity', '1', ...to, ...flags, '--', 'sh', '-c', 'echo ran; exit 3']);
  };
  const first = run();
  const gone = Promise.race([first.exit, delay(60_000, 'the lease is waited for', { ref: false })]);
  assert.equal(await gone, 3);
  const said = `nobody polls task queue "${taskQueue}"`;
  assert.equal(first.stdout, 'ran\n');
  assert.ok(first.stderr.includes(said), first.stderr);
  const [late, tried] = [run('--timeout', '6s'), run('--try')];
  assert.deepEqual(await Promise.all([late.exit, tried.exit]), [75, 75]);
  for (const { stdout, stderr } of [late, tried]) {
    assert.equal(stdout, '');
    assert.ok(stderr.includes(said) && !stderr.includes('all slots are held'), stderr);
  }
  const waiting = run();
  await waiting.says(new RegExp(`temporal-semaphore: (${said})`));
  await temporal.worker({ taskQueue });
  assert.equal(await waiting.exit, 3, 'with a worker the slot comes free');
});

test('why does not deny that somebody waits where no worker tells', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: '10m' });
  await temporal.client.workflow.start(QUEUE_WORKFLOW, { workflowId: queueId(resource), taskQueue });
  const to = ['--address', temporal.env.address, '--resource', resource];
  const why = new CliProcess(['why', 'train-7', ...to]);
  assert.equal(await why.exit, 69);
  assert.match(
    why.stderr,
    new RegExp(`can't tell whether train-7 waits for a permit of ${resource}: no worker answers`),
  );
  await temporal.worker({ taskQueue });
  await (await pool.acquire()).release();
});

test('a client tells by its errors, and warns while it waits', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const options = { capacity: 1, taskQueue, lease: '10m' } as const;
  const pool = new SemaphoreClient(temporal.client, resource, options);
  const permit = await pool.acquire();
  const stopped = new AbortController();
  const [warned, waiting] = [once(process, 'warning'), pool.acquire({ signal: stopped.signal })];
  const [warning] = await warned;
  assert.equal(warning.code, 'TEMPORAL_SEMAPHORE_UNPOLLED');
  assert.ok(warning.message.includes(`nobody polls task queue "${taskQueue}"`));
  stopped.abort(new Error('no more'));
  await assert.rejects(waiting, /no more/);

  const sinceMs = performance.now();
  await assert.rejects(permit.release(), isUnpolled(taskQueue, NoAnswerError));
  assert.ok(performance.now() - sinceMs < 60_000, 'the lease is not waited for');
  for (const timeout of [0, 1_000]) {
    await assert.rejects(pool.acquire({ timeout }), isUnpolled(taskQueue, PermitTimeoutError));
  }
  await assert.rejects(pool.revoke('0', { timeout: '1s' }), isUnpolled(taskQueue, NoAnswerError));
  await assert.rejects(pool.pause({ timeout: '1s' }), isUnpolled(taskQueue, NoAnswerError));
  await temporal.worker({ taskQueue });
  const handle = temporal.client.workflow.getHandle(permit.workflowId, permit.runId);
  await eventually(async () => assert.notEqual((await handle.describe()).status.name, 'RUNNING'));
  await eventually(async () => void (await pool.resume()));
});

test('a release waits for a worker that is away for some seconds, as after a crash of its server', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const permit = await new SemaphoreClient(temporal.client, resource, {
    capacity: 1,
    taskQueue,
    lease: '10m',
  }).acquire();
  const released = permit.release();
  released.catch(() => undefined); // told below
  await delay(3_000);
  await temporal.worker({ taskQueue });
  await released;
  const { status } = await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).describe();
  assert.equal(status.name, 'COMPLETED');
});

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
  const pool = new SemaphoreClient(client, resource, { capacity: 1, taskQueue, lease: '10m' });
  await assert.rejects(pool.acquire({ signal: stopped.signal }), /no more/);
  await temporal.worker({ taskQueue });
  const handle = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
  assert.equal(await handle.result(), 'released');
});

test('permits that were all had are kept, although the permit that allowed to accumulate them is not free yet', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 2, taskQueue, lease: '10m' });
  const set = await pool.acquire({ permits: 2, timeout: '5s' });
  assert.deepEqual(set.permits.map(({ slot }) => slot).sort(), ['0', '1']);
  await temporal.worker({ taskQueue });
  await set.release();
  const accumulator = temporal.client.workflow.getHandle(permitId({ resource: `${resource}~set`, slot: '0' }));
  assert.equal(await accumulator.result(), 'released');
});

test('where a worker answers nobody asks, but for one call of a wait that is long; and a full pool is said to be full', async () => {
  const resource = temporal.resource();
  const { workflowService } = temporal.client;
  const describe = workflowService.describeTaskQueue.bind(workflowService);
  let asked = 0;
  const counting = Object.create(workflowService, {
    describeTaskQueue: {
      value: (...args: Parameters<typeof describe>) => {
        asked++;
        return describe(...args);
      },
    },
  });
  const client = Object.create(temporal.client, { workflowService: { value: counting } });
  const pool = new SemaphoreClient(client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  let warnings = 0;
  const count = () => warnings++;
  process.on('warning', count);
  const sinceMs = performance.now();
  const permit = await pool.acquire();
  assert.equal(await pool.tryAcquire(), undefined);
  await permit.release();
  const [again, soon] = [await pool.acquire(), pool.acquire()];
  await again.release();
  const held = await soon;
  const fast = performance.now() - sinceMs < 2_000;
  if (fast) assert.equal(asked, 0); // each wait of more than two seconds asks, as on a busy machine
  asked = 0;

  const late = pool.acquire({ timeout: '4s' });
  await assert.rejects(late, (error) => error instanceof PermitTimeoutError && error.unpolled === undefined);
  await assert.rejects(late, /all slots are held/);
  assert.ok(asked >= 1 && asked <= 2, `${asked} calls`);
  await held.release();
  process.off('warning', count);
  assert.equal(warnings, 0);
  const { status } = await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).describe();
  assert.equal(status.name, 'COMPLETED');
});
