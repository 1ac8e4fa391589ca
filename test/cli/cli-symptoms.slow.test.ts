import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import type { Finding } from '../../src/cli/resource-findings';
import { SemaphoreClient } from '../../src/client';
import { queueId } from '../../src/shared/permit-id';
import { CliHost, type Ended } from '../support/cli-host';
import { CliProcess } from '../support/cli-process';
import { operatorOf } from '../support/operators';
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
  const semaphores = [silent, pool(terminated), pool(temporal.resource(), 1, taskQueue)];
  const permits = await Promise.all(semaphores.map((semaphore) => semaphore.acquire()));
  const stop = new AbortController();
  clean.push(() => stop.abort());
  const waiting = semaphores.map((semaphore) => semaphore.acquire({ signal: stop.signal }).catch(() => undefined));
  await untilWaiting(temporal.client, terminated, 1);
  await temporal.client.workflow.getHandle(queueId(terminated)).terminate();

  const remedy = `No worker answers on task queue "${taskQueue}". Start one: temporal-semaphore worker --task-queue ${taskQueue}\n`;
  const lost = 'What resize or pause had set is lost with the last queue: set it again.';
  const remedies = [remedy, `If a permit worker runs, one of these clients starts a queue within 5 minutes. ${lost}\n`];
  const none = ['no queue runs, but', 'no queue runs (the last one has ended: terminated), but'];
  for (const [index, resource] of [unpolled, terminated].entries()) {
    await eventually(async () => {
      const { code, stderr } = await run(['why', 'train-7', '--resource', resource]);
      const untold = `can't tell whether train-7 waits for a permit of ${resource}: ${none[index]} 1 client waits: permit-waiter:${resource}:`;
      assert.ok(stderr.includes(untold) && stderr.endsWith(`. ${remedies[index]}`), stderr);
      assert.equal(code, 69);
    });
    const seen = JSON.parse(await output(['ls', resource, '--json']));
    assert.deepEqual([seen.queue, seen.waiting, seen.unqueued.length], ['none', undefined, 1]);
    const shown = await output(['ls', resource]);
    assert.ok(shown.includes(`: 1 of 1 held, ${none[index]} 1 client waits: permit-waiter:`), shown);
    assert.equal(shown.includes(lost), resource === terminated, shown);
  }
  const holder = await run(['why', temporal.client.options.identity, '--resource', unpolled]);
  assert.doesNotMatch(holder.stdout, /waits for no permit/);
  assert.equal(holder.code, 69);
  const all = await output(['ls']);
  assert.match(
    all,
    new RegExp(`^${unpolled} +1 +1 +1 *\n(.*\n)*${unpolled}: no queue runs, but 1 client waits: `, 'm'),
  );
  const warning = (await doctor()).find(({ what }) => what.startsWith(`"${terminated}": ${none[1]} 1 client waits`));
  assert.equal(warning?.is, 'warning');

  await eventually(async () => {
    const { stderr } = await run(['why', 'train-7']);
    assert.equal(stderr.match(/can't tell/g)?.length, 1, stderr);
    assert.match(stderr, /\n.*… nor of .*: temporal-semaphore doctor reports why\. /);
  });
  const { unqueued } = JSON.parse(await output(['ls', unpolled, '--json']));
  const itself = await run(['why', unqueued[0].workflowId]);
  assert.ok(
    itself.stderr.includes(`${unqueued[0].workflowId} waits for a permit of ${unpolled}: no queue`),
    itself.stderr,
  );
  assert.doesNotMatch(itself.stderr, /can't tell/);

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

test('doctor and run name a resize for which callers wait; doctor names a hold that may hang, and who has set a pause', async () => {
  const [resized, held, paused] = [temporal.resource(), temporal.resource(), temporal.resource()];
  const semaphores = [pool(resized, 2), pool(held)];
  const permits = await Promise.all([...semaphores, ...semaphores.slice(0, 1)].map((semaphore) => semaphore.acquire()));
  const stop = new AbortController();
  clean.push(() => stop.abort());
  const operator = operatorOf(pool(resized, 2));
  await operator.resize(1, { reason: 'black friday' });
  const waiting = semaphores.map((semaphore) => semaphore.acquire({ signal: stop.signal }).catch(() => undefined));
  for (const resource of [resized, held]) await untilWaiting(temporal.client, resource, 1);

  const directory = mkdtempSync(join(tmpdir(), 'limits-'));
  clean.push(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'limits.yaml');
  writeFileSync(file, `version: 2\nresources:\n  ${paused}: { declared: 1, paused: { reason: migration } }\n`);
  await output(['apply', file, '--yes', '--task-queue', temporal.taskQueue]);

  await eventually(async () => {
    const found = JSON.parse(
      (await run(['doctor', '--task-queue', temporal.taskQueue, '--waiting-longer', '0s', '--json'])).stdout,
    ) as Finding[];
    const about = (start: string) => found.find(({ what }) => what.startsWith(start)) ?? assert.fail(start);
    const { advice } = about(`"${resized}" is resized to 1 of 2: black friday`);
    assert.equal(advice, `\`temporal-semaphore resize ${resized} 2\` ends the change.`);
    const hold = `temporal-semaphore revoke ${held} 0 --run-id ${permits[1]?.runId}`;
    const { advice: late = '' } = about(`"${held}": 1 waiting`);
    assert.ok(late.includes(hold), late);
    assert.match(late, / \(no renewal for \d.*; its lease ends in 9m .* unless it is renewed\): /);
    assert.match(about(`"${resized}": 1 waiting`).advice ?? '', /who holds\.$/, 'the resize explains it');
    const file = about(`"${paused}" is paused: limits file, version 2: migration`);
    assert.match(
      file.advice ?? '',
      /^To end the pause, write `paused: false` in the limits file and raise its version: /,
    );
  });
  const why = await run(['why', temporal.client.options.identity, '--resource', held]);
  assert.match(why.stdout, / waits for a permit of .*, next in line, with priority 3, for /);
  const waiter = new CliProcess([
    ...['run', resized, '--capacity', '2', '--address', temporal.env.address, '--task-queue', temporal.taskQueue],
    ...['--', 'true'],
  ]);
  await waiter.says(/(2 of 1 held \(1 until released\), 1 ahead, and the resource is resized to 1: black friday)/);
  waiter.signal('SIGINT');
  await waiter.exit;

  stop.abort();
  await Promise.all(waiting);
  await operator.resize(2);
  await operatorOf(pool(paused)).resume();
  await Promise.all(permits.map((permit) => permit.release()));
});
