import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { SemaphoreClient } from '../../src/client';
import { LimitsKeeper } from '../../src/limits/limits-keeper';
import { Operator, type Override } from '../../src/operator';
import { keyResource } from '../../src/shared/key-names';
import { queueId } from '../../src/shared/permit-id';
import { createPermitWorker } from '../../src/worker';
import { CliHost } from '../support/cli-host';
import { eventually, permitsRunning, useTemporal } from '../support/temporal';

// A limits file that stays in force, on a real server. The comparison itself is tested in src/limits.

/** What to take back at the end of a test, the last first. */
const undo: (() => unknown)[] = [];

/** Takes all back within the test: a hook would come after the check for permits that are left, where another file has set that up. */
function keeping(name: string, body: (context: TestContext) => Promise<void>): void {
  test(name, async (context) => {
    try {
      await body(context);
    } finally {
      for (const step of undo.splice(0).reverse()) await step();
    }
  });
}

const temporal = useTemporal({ shared: true });
const directory = mkdtempSync(join(tmpdir(), 'kept-limits-'));
after(() => rmSync(directory, { recursive: true }));

const host = new CliHost();
const DECLARED = 3;
const ROUND_MS = 300;

function operatorOf(resource: string): Operator {
  const operator = new Operator(temporal.client, resource, { capacity: DECLARED, taskQueue: temporal.taskQueue });
  undo.push(() => operator.resize(DECLARED));
  return operator;
}

/** As the queue says, whose answer may be late on a busy machine. */
async function overrideOf(operator: Operator): Promise<Override | undefined> {
  return await eventually(async () => {
    const { queue, override } = await operator.inspect({ recent: 0, search: false });
    assert.notEqual(queue, 'silent');
    return override;
  });
}

/** … where the keeper warns that it does not know what is set. */
const IS_LATE = /no worker answers for its queue/;

interface Kept {
  path: string;
  /** Writes the file anew. */
  write(version: number, limits: Record<string, string>): void;
  info: string[];
  warnings: string[];
  /** Starts keeping, until the test ends. */
  start(client?: Client, ownTaskQueue?: string): void;
}

/** A file of its own, and who keeps it. The text of a limit is YAML. */
function keptFile(version: number, limits: Record<string, string>): Kept {
  const path = join(directory, `${randomUUID()}.yaml`);
  const write = (version: number, limits: Record<string, string>) => {
    const lines = Object.entries(limits).map(([name, text]) => `  ${name}: ${text}\n`);
    writeFileSync(path, `version: ${version}\nresources:\n${lines.join('')}`);
  };
  write(version, limits);
  const info: string[] = [];
  const warnings: string[] = [];
  const log = {
    info: (text: string) => info.push(text),
    warn: (text: string) => IS_LATE.test(text) || warnings.push(text),
  };
  const start = (client = temporal.client, ownTaskQueue = temporal.taskQueue) => {
    const keeper = new LimitsKeeper(path, { log, ownTaskQueue, everyMs: ROUND_MS });
    const ended = new AbortController();
    const work = () => new Promise<void>((resolve) => ended.signal.addEventListener('abort', () => resolve()));
    const kept = keeper.during(work, client);
    undo.push(async () => {
      ended.abort();
      await kept;
    });
  };
  return { path, write, info, warnings, start };
}

async function untilCapacity(operator: Operator, capacity: number | undefined): Promise<void> {
  await eventually(async () => assert.equal((await overrideOf(operator))?.capacity, capacity));
}

keeping(
  'what drifts is mended: a terminated queue, and a resize by hand, but for one with an end; what is in force gets no order',
  async () => {
    const resource = temporal.resource();
    const operator = operatorOf(resource);
    const file = keptFile(4, { [resource]: '{ capacity: 2, declared: 3, note: one is broken }' });
    file.start();
    await untilCapacity(operator, 2);
    const set = await overrideOf(operator);
    assert.deepEqual([set?.fileVersion, set?.reason], [4, 'limits file, version 4: one is broken']);

    const queue = temporal.client.workflow.getHandle(queueId(resource));
    await eventually(async () => assert.equal((await operator.inspect({ recent: 0 })).slots[2]?.state, 'drained'));
    const { historyLength } = await queue.describe();
    await delay(5 * ROUND_MS);
    assert.deepEqual(await overrideOf(operator), set);
    const after = (await queue.describe()).historyLength;
    assert.equal(after, historyLength, 'nothing is sent where nothing differs');

    await queue.terminate();
    await untilCapacity(operator, 2);
    await operator.resize(1, { reason: 'by hand' });
    await untilCapacity(operator, 2);
    await operator.resize(1, { until: new Date(Date.now() + 3_600_000), reason: 'a demo' });
    await delay(5 * ROUND_MS);
    const temporary = await overrideOf(operator);
    assert.deepEqual([temporary?.capacity, temporary?.before?.capacity, temporary?.before?.fileVersion], [1, 2, 4]);
    const listed = await host.run([
      'ls',
      resource,
      '--address',
      temporal.env.address,
      '--namespace',
      temporal.client.options.namespace,
    ]);
    assert.match(listed.stdout, /\[resized to 1 until .*Z, then 2 \(limits file, version 4\): a demo\]/);
    assert.deepEqual(file.warnings, []);
    assert.equal(file.info.filter((text) => /-> 2, by version 4 of the limits file /.test(text)).length, 3);
  },
);

keeping(
  'a file that changes is read again; one that becomes malformed leaves the last good one in force, and says so once, by line and column',
  async () => {
    const resource = temporal.resource();
    const operator = operatorOf(resource);
    const file = keptFile(1, { [resource]: '{ capacity: 2, declared: 3 }' });
    file.start();
    await untilCapacity(operator, 2);
    file.write(2, { [resource]: '{ capacity: 1, declared: 3 }' });
    await untilCapacity(operator, 1);
    file.write(3, { [resource]: '{ capcity: 3, declared: 3 }' });
    await eventually(async () => assert.equal(file.warnings.length, 1));
    assert.match(
      file.warnings[0] ?? '',
      /^version 2 of the limits file .* stays in force\. The limits file has 2 mistakes:\n.*\.yaml:3:3: .*\n.*:3:\d+: .*Did you mean "capacity"\?$/,
    );
    await operator.resize(2);
    await untilCapacity(operator, 1);
    rmSync(file.path);
    await eventually(async () => assert.match(file.warnings[1] ?? '', /stays in force\. .* can't be read \(ENOENT\)/));
    assert.equal(file.warnings.length, 2);
    file.write(3, { [resource]: '{ capacity: 3, declared: 3 }' });
    await eventually(async () => assert.equal((await overrideOf(operator))?.fileVersion, 3));
    assert.equal(file.warnings.length, 2);
  },
);

keeping(
  'of two files the greater version wins, also where it sets nothing, and the other says so once; two of one file leave each other alone',
  async () => {
    const [shrunk, asDeclared] = [temporal.resource('shrunk'), temporal.resource('as-declared')];
    const [first, second] = [operatorOf(shrunk), operatorOf(asDeclared)];
    const limits = (a: number, b: number) => ({
      [shrunk]: `{ capacity: ${a}, declared: 3 }`,
      [asDeclared]: `{ capacity: ${b}, declared: 3 }`,
    });
    const older = keptFile(6, limits(1, 1));
    const newer = keptFile(7, limits(2, 3));
    older.start();
    await untilCapacity(first, 1);
    await untilCapacity(second, 1);
    newer.start();
    newer.start(); // a second worker with the same file
    const settled = async () => {
      const [a, b] = [await overrideOf(first), await overrideOf(second)];
      assert.deepEqual([a?.capacity, a?.fileVersion, b?.capacity, b?.fileVersion], [2, 7, undefined, 7]);
      assert.equal(older.warnings.length, 1, older.warnings.join('\n'));
      return [a, b];
    };
    const set = await eventually(settled);
    await delay(5 * ROUND_MS);
    assert.deepEqual(await settled(), set, 'no file undoes what the other has set');
    assert.match(
      older.warnings[0] ?? '',
      /^\S+( and 1 more)?: version 7 of a limits file has set something else, which stays: raise the version of this file, which is 6\.$/,
    );
    assert.deepEqual(newer.warnings, []);
  },
);

keeping('a key that comes later gets the default of its resource, and a named key its own limit', async () => {
  const resource = temporal.resource();
  const [acme, globex] = ['acme', 'globex'].map((key) => keyResource(resource, key)) as [string, string];
  const { taskQueue } = temporal;
  const operators = [acme, globex].map((pool) => new Operator(temporal.client, pool, { capacity: 1, taskQueue }));
  const [named, later] = operators as [Operator, Operator];
  for (const operator of operators) undo.push(() => operator.resize(1));
  const paused = new Operator(temporal.client, keyResource(resource, 'initech'), { capacity: 1, taskQueue });
  await paused.pause();
  undo.push(() => paused.resume());
  await eventually(async () => assert.equal((await permitsRunning(temporal.client, paused.resource)).length, 1));
  const file = keptFile(1, { [resource]: '{ perKey: { declared: 1, default: 2, keys: { acme: 3 } } }' });
  file.start();
  await untilCapacity(named, 3);
  assert.equal(await overrideOf(later), undefined, 'nothing for a key that nobody has used');
  const calls = new SemaphoreClient(temporal.client, resource, { capacity: 9, perKey: 1, taskQueue });
  const first = await calls.acquire({ key: 'globex' });
  const second = await calls.acquire({ key: 'globex' }); // the keeper gives it a second slot
  assert.equal((await overrideOf(later))?.capacity, 2);
  await Promise.all([first.release(), second.release()]);
  const other = await calls.acquire({ key: 'acme' });
  await delay(3 * ROUND_MS);
  assert.deepEqual([(await overrideOf(named))?.capacity, file.warnings], [3, []]);
  assert.equal((await overrideOf(paused))?.capacity, undefined, 'what the queue keeps out of use is no use of a key');
  await other.release();
});

keeping('the queue of a resource that is in use starts where its permits run', async () => {
  const resource = temporal.resource();
  const operator = operatorOf(resource);
  const { client, taskQueue } = temporal;
  const held = await new SemaphoreClient(client, resource, { capacity: DECLARED, taskQueue }).acquire();
  await eventually(async () => assert.equal((await permitsRunning(client, resource)).length, 1));
  keptFile(1, { [resource]: '{ capacity: 2, declared: 3 }' }).start(client, `nobody-${randomUUID()}`);
  await untilCapacity(operator, 2);
  await held.release();
});

keeping('whatever the server does, the work goes on, and the keeper goes on once the server answers', async () => {
  const resource = temporal.resource();
  const operator = operatorOf(resource);
  const file = keptFile(1, { [resource]: '{ capacity: 2, declared: 3 }' });
  const nowhere = new Client({ connection: temporal.client.connection, namespace: `nowhere-${randomUUID()}` });
  file.start(nowhere);
  await eventually(async () =>
    assert.match(file.warnings[0] ?? '', /^What is in force can't be compared with version 1 of/),
  );
  await delay(3 * ROUND_MS);
  assert.equal(file.warnings.length, 1, 'it says so once');
  file.start();
  await untilCapacity(operator, 2);
});

keeping('a permit worker keeps its file in force while it runs, and is not made with a malformed one', async () => {
  const resource = temporal.resource();
  const operator = new Operator(temporal.client, resource, { capacity: DECLARED });
  const { nativeConnection: connection } = temporal.env;
  const { path, write } = keptFile(1, { [resource]: '{ capacty: 2 }' });
  const options = { connection, taskQueue: `permits-${randomUUID()}`, limits: path };
  await assert.rejects(createPermitWorker(options), { name: 'InvalidOptionsError', message: /\.yaml:3:3: / });
  await assert.rejects(createPermitWorker({ ...options, limits: '' }), /^InvalidOptionsError: limits: expected/);
  write(1, { [resource]: '{ capacity: 2, declared: 3 }' });
  const worker = await createPermitWorker(options);
  await worker.runUntil(async () => {
    await untilCapacity(operator, 2);
    const { taskQueue } = await operator.inspect({ recent: 0 });
    assert.equal(
      taskQueue,
      options.taskQueue,
      'where nothing of the resource runs, its queue starts on that of the worker',
    );
    await operator.resize(DECLARED);
    await eventually(async () => assert.equal((await operator.inspect({ recent: 0 })).free, DECLARED));
  });
});
