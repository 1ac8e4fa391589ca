import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Finding } from '../../src/cli/resource-findings';
import { SemaphoreClient } from '../../src/client';
import { queueId } from '../../src/shared/permit-id';
import { CliHost, type Ended } from '../support/cli-host';
import { eventually, untilWaiting, useTemporal } from '../support/temporal';
import { taskQueueOfNobody } from '../support/unpolled';

// What ls, why and doctor say of a resource with which something is wrong.

const temporal = useTemporal();

const clean: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

const host = new CliHost();

async function run(args: string[]): Promise<Ended> {
  return await host.run([...args, '--address', temporal.env.address]);
}

/** Its standard output, when it went well. */
async function output(args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  assert.deepEqual([code, stderr], [0, ''], stdout);
  return stdout;
}

async function doctor(): Promise<Finding[]> {
  return JSON.parse((await run(['doctor', '--task-queue', temporal.taskQueue, '--json'])).stdout);
}

function pool(resource: string, capacity = 1, taskQueue = temporal.taskQueue): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue, lease: '10m' });
}

test('a client that waits while no queue runs is not denied: no worker has run its Workflow, or the queue was terminated', async () => {
  const [unpolled, terminated] = [temporal.resource(), temporal.resource()];
  const taskQueue = taskQueueOfNobody();
  const silent = pool(unpolled, 1, taskQueue);
  const semaphores = [silent, pool(terminated)];
  const permits = await Promise.all(semaphores.map((semaphore) => semaphore.acquire()));
  const stop = new AbortController();
  clean.push(() => stop.abort());
  const waiting = semaphores.map((semaphore) => semaphore.acquire({ signal: stop.signal }).catch(() => undefined));
  await untilWaiting(temporal.client, terminated, 1);
  await temporal.client.workflow.getHandle(queueId(terminated)).terminate();

  const remedy = `No worker answers on task queue "${taskQueue}". Start one: temporal-semaphore worker --task-queue ${taskQueue}\n`;
  const remedies = [remedy, 'If a permit worker runs, a waiter starts a queue within 5 minutes.\n'];
  for (const [index, resource] of [unpolled, terminated].entries()) {
    await eventually(async () => {
      const { code, stderr } = await run(['why', 'train-7', '--resource', resource]);
      const untold = `can't tell whether train-7 waits for a permit of ${resource}: no queue runs, but 1 client waits: permit-waiter:${resource}:`;
      assert.ok(stderr.includes(untold) && stderr.endsWith(`. ${remedies[index]}`), stderr);
      assert.equal(code, 69);
    });
    const seen = JSON.parse(await output(['ls', resource, '--json']));
    assert.deepEqual([seen.queue, seen.waiting, seen.unqueued.length], ['none', undefined, 1]);
    assert.match(await output(['ls', resource]), /: 1 of 1 held, no queue runs, but 1 client waits: permit-waiter:/);
  }
  const holder = await run(['why', temporal.client.options.identity, '--resource', unpolled]);
  assert.doesNotMatch(holder.stdout, /waits for no permit/);
  assert.equal(holder.code, 69);
  const all = await output(['ls']);
  assert.match(
    all,
    new RegExp(`^${unpolled} +1 +1 +1 *\n(.*\n)*${unpolled}: no queue runs, but 1 client waits: `, 'm'),
  );
  const warning = (await doctor()).find(({ what }) =>
    what.startsWith(`"${terminated}": no queue runs, but 1 client waits`),
  );
  assert.equal(warning?.is, 'warning');

  stop.abort();
  await Promise.all(waiting);
  await temporal.worker({ taskQueue });
  await Promise.all(permits.map((permit) => permit.release()));
});

test('doctor names a task queue whose worker has stopped once, although the server still lists its pollers', async () => {
  const [first, second, taskQueue] = [temporal.resource(), temporal.resource(), taskQueueOfNobody()];
  const worker = await temporal.worker({ taskQueue });
  const permits = await Promise.all([first, second].map((resource) => pool(resource, 1, taskQueue).acquire()));
  const about = async () => {
    const found: Finding[] = JSON.parse((await run(['doctor', '--task-queue', taskQueue, '--json'])).stdout);
    return found.filter(({ what }) => [taskQueue, first, second].some((name) => what.includes(name)));
  };
  await eventually(async () => {
    const [ok, ...more] = await about();
    assert.match(ok?.what ?? '', /^task queue ".*" has \d+ pollers?, last seen /);
    assert.deepEqual(more, []);
  });
  await worker.stop();
  const [finding, ...more] = await about();
  assert.deepEqual(more, []);
  assert.equal(finding?.is, 'bad');
  assert.match(
    finding.what,
    /^slot "0" of ".*", held by .*, and 1 more: no worker answers on task queue ".*", which has \d+ pollers?, last seen \d+\.\d s ago$/,
  );
  assert.match(
    finding.advice ?? '',
    /The worker there has probably ended: .* Start one: temporal-semaphore worker --task-queue /,
  );

  const again = await temporal.worker({ taskQueue });
  clean.push(() => again.stop());
  await Promise.all(permits.map((permit) => permit.release()));
});
