import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Finding } from '../../src/cli/resource-findings';
import { NoAnswerError, PermitPool, PermitTimeoutError, SemaphoreClient } from '../../src/client';
import { permitId, queueId } from '../../src/shared/permit-id';
import { QUEUE_WORKFLOW } from '../../src/shared/protocol';
import { CliHost } from '../support/cli-host';
import { CliProcess } from '../support/cli-process';
import { startHolder } from '../support/holders';
import { operatorOf } from '../support/operators';
import { eventually, until, useTemporal } from '../support/temporal';
import { isUnpolled, nobodyPolls, taskQueueOfNobody } from '../support/unpolled';

// Where nobody runs permits, that is said, and it is not taken for a full resource. Each test ends with a worker: what was
// asked for meanwhile takes effect then.

const temporal = useTemporal({ shared: true });
const host = new CliHost();

test('run and why say that nobody runs permits, and not that all slots are held or that nobody waits', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: '10m' });
  const permit = await semaphore.acquire();
  const at = ['--address', temporal.env.address];
  const run = [...['run', resource, '--capacity', '1'], ...at, '--task-queue', taskQueue, '--lease', '10m'];
  const waiting = new CliProcess([...run, '--', 'sh', '-c', 'echo ran; exit 3']);
  for (const flags of [['--timeout', '1s'], ['--try']]) {
    const { code, stdout, stderr } = await host.run([...run, ...flags, '--', 'true']);
    assert.deepEqual([code, stdout], [69, '']);
    assert.ok(stderr.includes(nobodyPolls(taskQueue)) && !stderr.includes('all slots are held'), stderr);
  }
  const ls = await host.run(['ls', resource, '--capacity', '1', ...at]);
  const remedy = `temporal-semaphore worker --task-queue ${taskQueue}`;
  assert.match(ls.stdout, /\n +0 +held .* \? *\nNo worker answers for the permits marked "\?"\./);
  assert.ok(ls.stdout.includes(remedy), ls.stdout);
  const holder = await host.run(['why', temporal.client.options.identity, ...at, '--resource', resource]);
  assert.ok(holder.stdout.includes(`no worker answers on task queue "${taskQueue}", and no worker polls it`));
  assert.ok(holder.stdout.includes(remedy), holder.stdout);
  await eventually(async () => {
    const all = await host.run(['ls', ...at]);
    assert.ok(all.stdout.includes(`${resource}: no worker answers on task queue "${taskQueue}"`), all.stdout);
    const doctor = await host.run(['doctor', ...at, '--task-queue', temporal.taskQueue, '--json']);
    const found: Finding[] = JSON.parse(doctor.stdout);
    const { what, advice } = found.find((finding) => finding.what.includes(`of "${resource}"`)) ?? assert.fail();
    assert.ok(what.endsWith(`on task queue "${taskQueue}", and no worker polls it`) && advice?.endsWith(remedy), what);
  });
  await temporal.client.workflow.start(QUEUE_WORKFLOW, {
    workflowId: queueId(resource),
    taskQueue,
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
  const why = await host.run(['why', 'train-7', ...at, '--resource', resource]);
  assert.equal(why.code, 69);
  const untold = `can't tell whether train-7 waits for a permit of ${resource}: no worker answers`;
  assert.ok(why.stderr.includes(untold) && why.stderr.includes(remedy), why.stderr);
  const ended = await temporal.client.workflow.start('none', { workflowId: `ended-${resource}`, taskQueue });
  await ended.terminate();
  const whyEnded = await host.run(['why', ended.workflowId, ...at, '--resource', resource]);
  assert.equal(whyEnded.code, 1);
  assert.match(whyEnded.stderr, / has ended \(TERMINATED\): it neither waits for a permit nor holds one\./);
  const whyResource = await host.run(['why', resource, ...at, '--resource', resource]);
  assert.ok(
    whyResource.stderr.includes(`${resource} is a resource: temporal-semaphore ls ${resource}`),
    whyResource.stderr,
  );
  await waiting.says(new RegExp(`temporal-semaphore: (${nobodyPolls(taskQueue)})`));
  await temporal.worker({ taskQueue });
  await permit.release();
  assert.equal(await waiting.exit, 3, 'with a worker the slot comes free');
  assert.equal(waiting.stdout, 'ran\n');
});

test('why says first that a Workflow without a permit worker waits in its release', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const handle = await startHolder(temporal, { resource, semaphore: { capacity: 1, taskQueue }, holdMs: 0 });
  const says = `${handle.workflowId} has released slot 0 of ${resource}, and waits for a permit worker`;
  await eventually(async () => {
    const why = await host.run(['why', handle.workflowId, '--address', temporal.env.address]);
    assert.ok(why.stdout.startsWith(says), why.stdout);
    assert.ok(why.stdout.includes(`temporal-semaphore worker --task-queue ${taskQueue}`), why.stdout);
  });
  await temporal.worker({ taskQueue });
  await handle.result();
});

test('a client tells by its errors, and warns while it waits', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: '10m' });
  const permit = await semaphore.acquire();
  const stopped = new AbortController();
  const [warned, waiting] = [once(process, 'warning'), semaphore.acquire({ signal: stopped.signal })];
  const [warning] = await warned;
  assert.equal(warning.code, 'TEMPORAL_SEMAPHORE_UNPOLLED');
  assert.ok(warning.message.includes(nobodyPolls(taskQueue)));
  stopped.abort(new Error('no more'));
  await assert.rejects(waiting, /no more/);
  const tries = [
    assert.rejects(operatorOf(semaphore).revoke('0', { timeout: '1s' }), isUnpolled(taskQueue, NoAnswerError)),
    assert.rejects(operatorOf(semaphore).pause({ timeout: '1s' }), isUnpolled(taskQueue, NoAnswerError)),
    ...[0, 1_000].map((timeout) =>
      assert.rejects(semaphore.acquire({ timeout }), isUnpolled(taskQueue, PermitTimeoutError)),
    ),
  ];
  await Promise.all(tries);
  await temporal.worker({ taskQueue });
  const handle = temporal.client.workflow.getHandle(permit.workflowId, permit.runId);
  await until(async () => (await handle.describe()).status.name !== 'RUNNING'); // it is revoked now
  await eventually(async () => void (await operatorOf(semaphore).resume()));
});

test('a permit pool says it too, also while it gives back what nobody takes', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const pool = new PermitPool(new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: '10m' }));
  await pool.withPermit(async () => undefined, { timeout: '2s' });
  await delay(1_000); // the permit is idle for longer than `idleFor`
  const call = pool.withPermit(async () => undefined, { timeout: '2s' });
  await assert.rejects(call, isUnpolled(taskQueue, PermitTimeoutError));
  await temporal.worker({ taskQueue });
  await pool.withPermit(async () => undefined, { timeout: '30s' });
  await pool.close();
});

test('a release that no worker carries out before its lease ends resolves then, although the slot is not free', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: '3s' });
  const permit = await semaphore.acquire();
  await permit.release();
  const run = temporal.client.workflow.getHandle(permit.workflowId, permit.runId);
  assert.equal((await run.describe()).status.name, 'RUNNING');
  await temporal.worker({ taskQueue });
  assert.equal(await run.result(), 'released');
});

test('an acquire that times out soon after the last worker has ended does not ask for more capacity', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: '10m' });
  const permit = await semaphore.acquire();
  const worker = await temporal.worker({ taskQueue });
  const message = async () => {
    const error = await semaphore.acquire({ timeout: 2_000 }).catch((error: unknown) => error);
    assert.ok(error instanceof PermitTimeoutError && error.unpolled === undefined, String(error));
    return error.message;
  };
  assert.match(await message(), /came free within 2 s. Wait longer, or add capacity\.$/);
  await worker.stop();
  await delay(8_000); // longer than clocks may differ
  assert.match(
    await message(),
    /no worker has polled task queue "nobody-.*" for \d+.* perhaps the permit worker has just ended/,
  );
  await temporal.worker({ taskQueue });
  await permit.release();
});

test('a release waits for a worker that is away for some seconds, as after a crash of its server', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, lease: '10m' });
  const permit = await semaphore.acquire();
  const released = permit.release();
  released.catch(() => undefined); // told below
  await delay(3_000); // a look of the client finds nobody
  await temporal.worker({ taskQueue });
  await released;
  const { status } = await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).describe();
  assert.equal(status.name, 'COMPLETED');
});

test('where a worker answers nobody asks, but for one call of a wait that is long; and a full resource is said to be full', async () => {
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
  const semaphore = new SemaphoreClient(client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  let warnings = 0;
  const count = () => warnings++;
  process.on('warning', count);
  const sinceMs = performance.now();
  const permit = await semaphore.acquire();
  assert.equal(await semaphore.tryAcquire(), undefined);
  await permit.release();
  const [again, soon] = [await semaphore.acquire(), semaphore.acquire()];
  await again.release();
  const held = await soon;
  const fast = performance.now() - sinceMs < 2_000;
  if (fast) assert.equal(asked, 0); // each wait of more than two seconds asks, as on a busy machine
  asked = 0;

  const late = semaphore.acquire({ timeout: '3s' });
  await assert.rejects(late, (error) => error instanceof PermitTimeoutError && error.unpolled === undefined);
  await assert.rejects(late, /came free within 3 s/);
  assert.ok(asked >= 1 && asked <= 2, `${asked} calls`);
  await held.release();
  process.off('warning', count);
  assert.equal(warnings, 0);
  const { status } = await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).describe();
  assert.equal(status.name, 'COMPLETED');
});
