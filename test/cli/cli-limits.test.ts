import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { lacking } from '../../scripts/support/requirements';
import { freePort } from '../../scripts/support/server-process';
import { SemaphoreClient } from '../../src/client';
import { Operator } from '../../src/operator';
import { keyResource } from '../../src/shared/key-names';
import { queueId } from '../../src/shared/permit-id';
import { QUEUE_WORKFLOW } from '../../src/shared/protocol';
import { CliHost, type Ended } from '../support/cli-host';
import { CliProcess } from '../support/cli-process';
import { eventually, useTemporal } from '../support/temporal';

// Limits as code on a real server: `plan`, `apply` and `export`. What a file may say is tested in src/limits.

/** What to take back after a test: an override keeps slots out of use. It comes before the check for permits that are left. */
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

const temporal = useTemporal();
const host = new CliHost();
const directory = mkdtempSync(join(tmpdir(), 'limits-'));
after(() => rmSync(directory, { recursive: true }));

interface Planned {
  is: string;
  resource: string;
  key?: string;
  now: { capacity?: number; declared?: number };
  above: { slot: string; permit: { leaseDeadline?: string } }[];
  problem?: string;
}

/** Writes a limits file. The text of its resources is YAML. */
function limitsFile(resources: Record<string, string>, version = 7): string {
  const path = join(directory, `${randomUUID()}.yaml`);
  const lines = Object.entries(resources).map(([name, text]) => `  ${name}: ${text}\n`);
  writeFileSync(path, `version: ${version}\nresources:\n${lines.join('')}`);
  return path;
}

const atServer = () => ['--address', temporal.env.address];

async function plan(path: string): Promise<Ended & { limits: Planned[] }> {
  const ended = await host.run(['plan', path, '-o', 'json', ...atServer()]);
  return { ...ended, limits: ended.stdout === '' ? [] : JSON.parse(ended.stdout) };
}

async function apply(path: string, ...flags: string[]): Promise<Ended> {
  return await host.run(['apply', path, ...flags, '--task-queue', temporal.taskQueue, ...atServer()]);
}

/** Waits until a plan, which reads permits from visibility, gives this exit code. */
async function untilPlanned(path: string, code: number): Promise<Planned[]> {
  return await eventually(async () => {
    const planned = await plan(path);
    assert.equal(planned.code, code, planned.stdout + planned.stderr);
    return planned.limits;
  });
}

function semaphore(resource: string, options: ConstructorParameters<typeof SemaphoreClient>[2]): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { ...options, taskQueue: temporal.taskQueue });
}

/** An operator whose changes a test takes back at its end. @param declared the slots as callers declare them */
function operatorOf(pool: string, declared: number | string[]): Operator {
  const slots = typeof declared === 'number' ? { capacity: declared } : { slots: declared };
  const operator = new Operator(temporal.client, pool, { ...slots, taskQueue: temporal.taskQueue });
  undo.push(async () => {
    await operator.resume();
    await operator.resize(typeof declared === 'number' ? declared : declared.length);
  });
  return operator;
}

const overrideOf = async (operator: Operator) => (await operator.inspect({ recent: 0, search: false })).override;

/** How many events the queue's history has. */
async function eventsOf(pool: string): Promise<number> {
  return (await temporal.client.workflow.getHandle(queueId(pool)).describe()).historyLength;
}

test('plan tells what would change and who is above the limit; apply changes it; a second apply sends nothing', async () => {
  const resource = temporal.resource();
  const operator = operatorOf(resource, 3);
  const three = semaphore(resource, { capacity: 3 });
  const permits = await Promise.all([1, 2, 3].map(() => three.acquire({ purpose: 'training' })));
  const path = limitsFile({ [resource]: '{ capacity: 2, owner: ml-platform, note: one GPU is broken }' });

  const [planned] = await untilPlanned(path, 2);
  assert.deepEqual([planned?.is, planned?.now.capacity, planned?.now.declared], ['change', 3, 3]);
  assert.deepEqual(
    planned?.above.map(({ slot }) => slot),
    ['2'],
  );
  assert.ok(Date.parse(planned?.above[0]?.permit.leaseDeadline ?? '') > Date.now());
  const text = await host.run(['plan', path, ...atServer()]);
  assert.equal(text.code, 2);
  assert.match(
    text.stdout,
    new RegExp(
      `^~ ${resource}: 3, as declared -> 2 \\(ml-platform: one GPU is broken\\)\n` +
        ' +above the limit until it is released: slot 2, .* \\(for .* s, training\\); its lease ends in .* s, unless it is renewed\n' +
        '\n1 to change, 0 in force\\.\n$',
    ),
  );
  assert.equal(await overrideOf(operator), undefined, 'plan changes nothing');

  const unasked = await apply(path);
  assert.equal(unasked.code, 64);
  assert.match(unasked.stderr, /Apply 1 change\? No terminal for confirmation: pass --yes\.\n$/);
  assert.equal(await overrideOf(operator), undefined);

  const applied = await apply(path, '--yes');
  assert.deepEqual([applied.code, applied.stderr], [0, ''], applied.stdout);
  assert.match(applied.stdout, new RegExp(`\nchanged ${resource}: 3, as declared -> 2 `));
  const set = await overrideOf(operator);
  assert.deepEqual([set?.capacity, set?.reason], [2, 'limits file, version 7: one GPU is broken']);

  const events = await eventsOf(resource);
  const again = await apply(path);
  assert.deepEqual([again.code, again.stderr], [0, ''], 'it asks only if there is something to change');
  assert.match(again.stdout, /= .*: 2\n +above the limit .*\n\nNothing to change, 1 in force\.\n$/);
  assert.deepEqual(await overrideOf(operator), set);
  assert.equal(await eventsOf(resource), events, 'nothing was sent to its queue');
  for (const permit of permits) await permit.release();
});

test('a limit of a key that is not in use yet is set, and no other key has it; a pause is set, and ended only if the file says so', async () => {
  const [openai, vendor] = [temporal.resource('openai'), temporal.resource('vendor')];
  const [acme, vendors] = [operatorOf(keyResource(openai, 'acme'), 1), operatorOf(vendor, 2)];
  const file = (paused: string, version = 7) =>
    limitsFile(
      {
        [openai]: '{ perKey: { declared: 1, keys: { acme: 2 } } }',
        [vendor]: `{ declared: 2, ${paused} }`,
      },
      version,
    );
  const path = file('paused: { reason: migration }');
  const calls = semaphore(openai, { capacity: 5, perKey: 1 });
  const before = await plan(path);
  assert.deepEqual(
    [before.code, before.limits.map(({ is, key }) => [is, key])],
    [
      2,
      [
        ['change', 'acme'],
        ['change', undefined],
      ],
    ],
  );
  assert.deepEqual([(await apply(path, '--yes')).code, (await plan(path)).code], [0, 0]);

  const permits = [await calls.acquire({ key: 'acme' }), await calls.acquire({ key: 'acme', timeout: '30s' })];
  const other = await calls.acquire({ key: 'globex' });
  assert.equal(await calls.tryAcquire({ key: 'globex' }), undefined, 'it has the limit that callers declare');
  for (const permit of [...permits, other]) await permit.release();
  assert.equal(await semaphore(vendor, { capacity: 2 }).tryAcquire(), undefined);
  assert.equal((await overrideOf(vendors))?.reason, 'limits file, version 7: migration');
  assert.equal((await overrideOf(acme))?.capacity, 2);

  const silent = file('capacity: 2');
  assert.deepEqual(
    [(await apply(silent)).code, (await overrideOf(vendors))?.paused],
    [0, true],
    'it says nothing of a pause',
  );
  const told = await host.run(['plan', silent, ...atServer()]);
  assert.match(told.stdout, /= vendor-.*: 2, as declared, paused\n +paused by a limits file \(version 7 or earlier\)/);
  const unraised = await apply(file('paused: false'), '--yes');
  assert.equal(unraised.code, 1);
  assert.match(
    unraised.stdout,
    /! vendor-.*: a limits file of the same version has set something else, which stays: raise/,
  );
  assert.equal((await apply(file('paused: false', 8), '--yes')).code, 0);
  const left = await overrideOf(vendors);
  assert.deepEqual(
    left,
    { version: left?.version, paused: false, reason: 'limits file, version 8', fileVersion: 8 },
    'an older file does not come back',
  );
  const older = await plan(path);
  assert.deepEqual([older.code, older.limits[1]?.is], [1, 'problem']);
  await vendors.resize(2);
  assert.equal(await overrideOf(vendors), undefined);
  await vendors.pause({ until: new Date(Date.now() + 600_000) });
  assert.equal((await plan(file('paused: false'))).code, 0, 'a pause with an end ends by itself');
});

test('apply stops where somebody has changed something since the plan, and says what is done', {
  skip: lacking('terminal'),
}, async () => {
  const resources = [temporal.resource('a'), temporal.resource('b')];
  const operators = resources.map((resource) => operatorOf(resource, 3));
  const path = limitsFile(Object.fromEntries(resources.map((name) => [name, '{ capacity: 2, declared: 3 }'])));
  const words = ['apply', path, '--task-queue', temporal.taskQueue, ...atServer()];
  const asked = new CliProcess(words, true, { NO_COLOR: '1' });
  undo.push(() => asked.signal('SIGKILL'));
  await asked.says(/(Apply 2 changes\? \[y\/N\])/);
  await operators[1]?.resize(1, { reason: 'by hand' });
  asked.types('y\r');
  assert.equal(await asked.exit, 75, asked.stdout);
  assert.match(asked.stdout, /not changed b-.*: Expected override version 0 of .*, found version/);
  const isDone = /^changed a-.*: 3, as declared -> 2/m.test(asked.stdout);
  const set = operators[0] && (await overrideOf(operators[0]));
  assert.deepEqual(set?.capacity, isDone ? 2 : undefined, asked.stdout);
  assert.match(
    asked.stdout,
    /temporal-semaphore: [01] of 2 changes made: an operator has made a change since the plan\./,
  );
  assert.equal((operators[1] && (await overrideOf(operators[1])))?.capacity, 1);

  assert.equal((await apply(path, '--yes')).code, 0, 'it can be run again');
  assert.equal((await plan(path)).code, 0);
});

test('resize and resume by hand say that a limits file had set the limit, but not if it has an end', async () => {
  const resource = temporal.resource();
  operatorOf(resource, 3);
  const order = async (...args: string[]) => {
    const { stdout } = await host.run([...args, '--task-queue', temporal.taskQueue, ...atServer()]);
    return stdout.split('\n').slice(1, -1);
  };
  const note =
    'A limits file (version 7) had set this: if a worker keeps the file, it sets this again within a minute.';
  const limit = { [resource]: '{ capacity: 2, declared: 3, paused: { reason: migration } }' };
  assert.equal((await apply(limitsFile(limit), '--yes')).code, 0);
  assert.deepEqual(await order('resume', resource), [
    `${note} Change the file and raise its version, with \`paused: false\` in it.`,
  ]);
  assert.equal((await apply(limitsFile({ [resource]: '{ capacity: 1, declared: 3 }' }), '--yes')).code, 0);
  assert.deepEqual(await order('resize', resource, '3', '--until', '10m', '--yes'), []);
  assert.deepEqual(await order('resize', resource, '2', '--yes'), [
    `${note} Change the file and raise its version, or use resize --until.`,
  ]);
  assert.deepEqual(await order('resize', resource, '1', '--yes'), [], 'an operator has set it');
});

test('what is not in use is left to its callers; what can not be, and what no worker tells, is refused and hides nothing', async () => {
  const [named, idle, silent] = [temporal.resource('named'), temporal.resource('idle'), temporal.resource('silent')];
  const operator = operatorOf(named, ['a', 'b', 'c']);
  const permit = await semaphore(named, { slots: ['a', 'b', 'c'] }).acquire();
  const unpolled = { workflowId: queueId(silent), taskQueue: `nobody-${randomUUID()}`, args: [{ tickets: [] }] };
  const queue = await temporal.client.workflow.start(QUEUE_WORKFLOW, unpolled);
  const of = (slots: string) =>
    limitsFile({ [named]: `{ slots: ${slots}, declared: [a, b, c] }`, [idle]: '{ capacity: 1 }' });

  const wrong = limitsFile({ [named]: '{ slots: [x, y] }' });
  const [impossible] = await untilPlanned(wrong, 1);
  assert.match(impossible?.problem ?? '', /declare 3 named slots, and neither a waiter nor "declared" names them/);
  assert.equal((await apply(wrong, '--yes')).code, 1);
  assert.equal(await overrideOf(operator), undefined);

  assert.equal((await plan(of('[a, b, c]'))).code, 0);
  const two = await plan(of('[a, b]'));
  assert.deepEqual([two.code, two.limits.map(({ is }) => is)], [2, ['change', 'unused']]);
  assert.equal((await apply(of('[a, b]'), '--yes')).code, 0);
  assert.equal((await overrideOf(operator))?.capacity, 2);

  const partly = limitsFile({ [silent]: '{ capacity: 1 }', [named]: '{ capacity: 1 }' }, 8);
  const unseen = await plan(partly);
  assert.deepEqual([unseen.code, unseen.limits.map(({ is }) => is)], [69, ['problem', 'change']]);
  assert.match(unseen.limits[0]?.problem ?? '', /no worker answers for its queue on task queue "nobody-/);
  assert.equal((await apply(partly, '--yes')).code, 69);
  assert.equal((await overrideOf(operator))?.capacity, 1, 'the others are put into force');
  await queue.terminate();
  await permit.release();
});

test('export writes what is in force, in which plan finds nothing to change', async () => {
  const [plain, resized, paused, openai] = ['plain', 'resized', 'paused', 'openai'].map((name) =>
    temporal.resource(name),
  );
  assert.ok(plain && resized && paused && openai);
  const held = [
    await semaphore(plain, { capacity: 2 }).acquire(),
    await semaphore(openai, { capacity: 9, perKey: 3 }).acquire({ key: 'a b\u202e' }),
  ];
  await operatorOf(resized, ['x', 'y']).resize(1, { reason: 'limits file, version 3: one is broken' });
  await operatorOf(paused, 4).pause({ reason: 'node drain \u001b[31m' });
  const exported = await eventually(async () => {
    const ended = await host.run(['export', ...atServer()]);
    assert.deepEqual([ended.code, ended.stderr], [0, ''], ended.stdout);
    for (const name of [plain, resized, paused, openai]) assert.ok(ended.stdout.includes(name), ended.stdout);
    return ended.stdout;
  });
  assert.doesNotMatch(exported, /[^\n\P{C}]|[\p{Zl}\p{Zp}]/u, 'nothing of it can write to the terminal');
  assert.match(exported, /^# yaml-language-server: .*schema\.json\n\nversion: \d+\nresources:\n/);
  assert.match(exported, new RegExp(`  ${plain}:\n    capacity: 2\n`));
  assert.match(
    exported,
    new RegExp(`  ${openai}:\n    capacity: 9\n    perKey:\n      keys:\n        "a b\\\\u202e": 3\n`),
  );
  const path = join(directory, 'exported.yaml');
  writeFileSync(path, exported);
  const planned = await plan(path);
  assert.equal(planned.code, 0, planned.stdout + planned.stderr);
  const json = join(directory, 'exported.json');
  writeFileSync(json, (await host.run(['export', '-o', 'json', ...atServer()])).stdout);
  assert.equal((await plan(json)).code, 0);
  assert.deepEqual(JSON.parse((await host.run(['export', '-o', 'json', ...atServer()])).stdout).resources[resized], {
    slots: ['x'],
    declared: ['x', 'y'],
    note: 'one is broken',
  });
  for (const permit of held) await permit.release();
});

test('an exported file has a greater version than the file in force, so that it applies when it is edited', async () => {
  const [until, paused] = [temporal.resource('until'), temporal.resource('paused')];
  const operator = operatorOf(until, 3);
  operatorOf(paused, 3);
  const limits = { [until]: '{ capacity: 2, declared: 3, note: one is broken }' };
  assert.equal((await apply(limitsFile(limits, 41), '--yes')).code, 0);
  assert.equal((await apply(limitsFile({ [paused]: '{ declared: 3, paused: { reason: m } }' }, 40), '--yes')).code, 0);
  await operator.resize(1, { until: new Date(Date.now() + 600_000) });
  const exported = await eventually(async () => {
    const { stdout } = await host.run(['export', ...atServer()]);
    assert.match(stdout, new RegExp(`  ${until}:\n    capacity: 2\n    declared: 3\n    note: one is broken\n`));
    assert.ok(stdout.includes(paused));
    return stdout;
  });
  assert.match(exported, /\nversion: 42\n/);
  await operator.resize(2);
  const path = join(directory, 'edited.yaml');
  writeFileSync(path, exported.replace(`  ${until}:\n    capacity: 2`, `  ${until}:\n    capacity: 1`));
  const edited = await apply(path, '--yes');
  assert.deepEqual([edited.code, edited.stderr], [0, ''], edited.stdout);
  assert.equal((await overrideOf(operator))?.capacity, 1);
});

test('a malformed file: exit code 64, line and column, before any server is asked', async () => {
  const address = ['--address', `127.0.0.1:${await freePort()}`];
  const path = limitsFile({ gpus: '{ capcity: 3 }' });
  for (const command of ['plan', 'apply']) {
    const { code, stdout, stderr } = await host.run([command, path, ...address]);
    assert.deepEqual([code, stdout], [64, '']);
    assert.match(
      stderr,
      /^temporal-semaphore: The limits file has 2 mistakes:\n.*\.yaml:3:3: gpus: expected a limit.*\n.*:3:11: .*Did you mean "capacity"\?\n$/,
    );
  }
  writeFileSync(path, Buffer.from([0x76, 0xff]));
  assert.match((await host.run(['plan', path, ...address])).stderr, /is not text in UTF-8\.\n$/);
  const missing = await host.run(['plan', join(directory, 'missing.yaml'), ...address]);
  assert.deepEqual([missing.code, /can't be read \(ENOENT\)/.test(missing.stderr)], [64, true]);
});
