import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { lacking } from '../../scripts/support/requirements';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import type { Finding } from '../../src/cli/resource-findings';
import { PermitPool, SemaphoreClient } from '../../src/client';
import { Operator } from '../../src/operator';
import { permitId, queueId } from '../../src/shared/permit-id';
import { CliHost, type Ended } from '../support/cli-host';
import { CliProcess } from '../support/cli-process';
import { assertFails, startHolder, startHolding } from '../support/holders';
import { operatorOf } from '../support/operators';
import { eventually, untilWaiting, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

const temporal = useTemporal();

const clean: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

const host = new CliHost();

/** Runs a command to its end, told of the test's server. */
async function run(args: string[], taskQueue = temporal.taskQueue): Promise<Ended> {
  return await host.run(toServer(args, taskQueue));
}

/** Starts a command in a process of its own. */
function cli(args: string[], { onTerminal = false, taskQueue = temporal.taskQueue } = {}): CliProcess {
  const started = new CliProcess(toServer(args, taskQueue), onTerminal);
  clean.push(() => started.signal('SIGKILL'));
  return started;
}

function toServer(args: string[], taskQueue: string): string[] {
  return [...args, '--address', temporal.env.address, ...(args[0] === 'why' ? [] : ['--task-queue', taskQueue])];
}

/** Its standard output, when it went well. */
async function output(args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  assert.deepEqual([code, stderr], [0, ''], stdout);
  return stdout;
}

async function jsonOf(args: string[]) {
  return JSON.parse(await output([...args, '--json']));
}

function pool(resource: string, capacity = 1): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue: temporal.taskQueue });
}

const CAPACITY_1 = { capacity: 1 };

test('ls shows a pool: who holds and who waits, with and without its capacity', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, {
    resource,
    semaphore: CAPACITY_1,
    acquire: { purpose: 'nightly' },
  });
  await eventually(async () => assert.equal((await jsonOf(['ls', resource])).capacity, 1, 'its permit states it'));
  const waiter = await startHolder(temporal, { resource, semaphore: CAPACITY_1, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);

  const seen = await jsonOf(['ls', resource]);
  assert.equal(seen.capacity, 1);
  assert.deepEqual(
    [seen.slots[0].permit.runId, seen.slots[0].permit.holder.workflowId, seen.waiters[0].workflowId],
    [runId, handle.workflowId, waiter.workflowId],
  );
  const text = await output(['ls', resource, '--capacity', '1']);
  assert.match(text, new RegExp(`^${resource}: 1 of 1 held, 1 waiting\n`));
  assert.match(text, new RegExp(`0 +held +${handle.workflowId} .* nightly *\n`));
  assert.match(text, new RegExp(`1 +${waiter.workflowId} `));
  assert.ok(!text.includes(runId), 'with --wide alone');
  const wide = await output(['ls', resource, '--wide']);
  assert.match(wide, new RegExp(`0 +held +${handle.workflowId} .* nightly +${runId} *\n`));
  assert.match(wide, new RegExp(`1 +${waiter.workflowId} .* ${waiter.firstExecutionRunId} *\n`));
  const all = await output(['ls']);
  assert.match(all, new RegExp(`^${resource} +1 +1 +1 `, 'm'));
  await handle.signal(workflows.finish);
  await waiter.result();
});

test("ls and doctor warn where callers disagree on the slots; a permit pool's permit says so", async () => {
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: CAPACITY_1 });
  await using calls = new PermitPool(pool(resource, 2));
  await using permit = await calls.acquire({ purpose: 'orders' });
  const text = await output(['ls', resource, '--capacity', '2']);
  const line = `its callers disagree on the slots: 1 \\(one, ${handle.workflowId}\\), 2 \\(one, `;
  assert.match(text, new RegExp(`^${resource}: 2 of 2 held, 0 waiting\n${line}`));
  assert.match(text, new RegExp(`${permit.slot} +held .* permit pool: orders *\n`));
  await eventually(async () => assert.match(await output(['ls']), new RegExp(`^${resource}: ${line}`, 'm')));
  const found = JSON.parse((await run(['doctor', '--json'])).stdout);
  const warning = found.find(({ what }: { what: string }) => what.startsWith(`"${resource}": its callers disagree`));
  assert.equal(warning?.is, 'warning');
  const stop = new AbortController();
  await using others = new PermitPool(pool(resource, 2));
  const waiting = others.acquire({ signal: stop.signal }).catch(() => undefined);
  await untilWaiting(temporal.client, resource, 1);
  assert.match(await output(['ls', resource, '--capacity', '2']), /\n +1 +\S+ \(permit pool\) /);
  stop.abort();
  await waiting;
  await handle.signal(workflows.finish);
  await handle.result();
  await eventually(async () => {
    assert.doesNotMatch(await output(['ls', resource, '--capacity', '2']), /disagree/);
  });
});

test('a permit in a slot that the queue does not know is shown, with what the operator can do until all callers agree', async () => {
  const resource = temporal.resource();
  const permits = [await pool(resource, 2).acquire(), await pool(resource, 2).acquire()];
  const beyond = await pool(resource, 3).acquire();
  assert.equal(beyond.slot, '2');
  const stop = new AbortController();
  clean.push(() => stop.abort());
  const waiting = assert.rejects(pool(resource, 2).acquire({ signal: stop.signal }));
  await untilWaiting(temporal.client, resource, 1);

  const advice = `temporal-semaphore resize ${resource} 3 --capacity 2`;
  await eventually(async () => {
    const shown = await output(['ls', resource]);
    assert.match(
      shown,
      new RegExp(`^${resource}: 3 of 2 held, 1 waiting\nits callers disagree on the slots: 2 \\(3 of`),
    );
    assert.match(shown, / +2 +held +\S/);
    assert.ok(shown.includes(advice), shown);
  });
  await eventually(async () => assert.match(await output(['ls']), new RegExp(`^${resource} +3 +2 +1 `, 'm')));
  const found: Finding[] = JSON.parse((await run(['doctor', '--json'])).stdout);
  const warning = found.find(({ what }) => what.startsWith(`"${resource}": its callers disagree`));
  assert.ok(warning?.advice?.includes(advice), JSON.stringify(warning));
  const { identity } = temporal.client.options;
  for (const args of [[identity], [identity, '--resource', resource]]) {
    const why = await output(['why', ...args]);
    assert.match(why, new RegExp(`^${resource}: 3 of 2 held\\.$`, 'm'));
    assert.match(why, /slot +held by +for +renewed +lease left +purpose\n +0 +\S+ +\S+ s +\S+ s ago +\S+ s/);
    assert.match(why, /^ +2 +\S+ .*\n\n/m);
    assert.ok(why.includes(advice), why);
  }
  await output(['resize', resource, '3', '--capacity', '2', '--yes']);
  assert.ok(!(await output(['ls', resource])).includes(advice), 'nothing is left to do for the operator');
  const next = pool(resource, 2).acquire();
  await untilWaiting(temporal.client, resource, 2);
  stop.abort();
  await waiting;
  await beyond.release();
  const { slot } = await next;
  assert.equal(slot, '2', 'a waiter with the smaller capacity gets the slot');
  for (const permit of [...permits, await next]) await permit.release();
});

test('doctor names a slot that a terminated queue has left out of use, and resume is the remedy', async () => {
  const resource = temporal.resource();
  await operatorOf(pool(resource)).pause();
  await eventually(async () => assert.match(await output(['ls', resource, '--capacity', '1']), / 1 drained/));
  const finding = async () => {
    const found: { is: string; what: string; advice?: string }[] = JSON.parse((await run(['doctor', '--json'])).stdout);
    return found.find(({ what }) => what.includes(`slot "0" of "${resource}"`));
  };
  assert.equal(await finding(), undefined, 'an order keeps it out of use');
  await temporal.client.workflow.getHandle(queueId(resource)).terminate();
  await eventually(async () => {
    const { is, what, advice } = (await finding()) ?? assert.fail();
    assert.equal(is, 'bad');
    assert.match(what, /is still out of use after an operator command, although its queue was terminated/);
    assert.ok(advice?.includes(`\`temporal-semaphore resume ${resource} --capacity 1\``), advice);
    assert.match(advice ?? '', /With its queue, the resource has lost what operators had set: set it again\./);
    assert.match(await output(['ls']), new RegExp(`^${resource} +0 +\\? +0 +1 drained *$`, 'm'));
  });
  await output(['resume', resource, '--capacity', '1']);
  await eventually(async () => assert.match(await output(['ls', resource, '--capacity', '1']), /0 of 1 held/));
  await eventually(async () => assert.equal(await finding(), undefined));
});

test('a Workflow of another type under an ID of ours is named, with what to do, and no worker is blamed', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const taskQueue = `nobody-${randomUUID()}`;
  const workflowIds = [permitId({ resource, slot: '1' }), queueId(resource)];
  const strangers = await Promise.all(
    workflowIds.map((workflowId) => temporal.client.workflow.start('train', { workflowId, taskQueue })),
  );
  const seen = await new Operator(temporal.client, resource, { capacity: 2, taskQueue }).inspect({
    recent: 0,
  });
  assert.deepEqual(seen.strangers?.map(({ workflowId, type }) => [workflowId, type]).sort(), [
    [workflowIds[1], 'train'],
    [workflowIds[0], 'train'],
  ]);
  const text = await output(['ls', resource, '--capacity', '2']);
  assert.match(text, /a Workflow of type "train" has the queue's ID/);
  assert.match(
    text,
    /is a Workflow of type "train", not of temporal-semaphore, and 1 more like it\n.*terminate it by its ID/,
  );
  assert.match(text, /within 4 minutes/);
  assert.match(text, /\n +1 +held +a Workflow of type "train" /);
  const finding = await eventually(async () => {
    const found: Finding[] = JSON.parse((await run(['doctor', '--json'])).stdout);
    const [first, ...more] = found.filter(({ what }) => what.includes(`"${resource}"`));
    assert.deepEqual(more, []);
    return first ?? assert.fail();
  });
  assert.match(finding.what, /permit-queue:.* is a Workflow of type "train", not of temporal-semaphore/);
  assert.match(finding.advice ?? '', /temporal workflow terminate/);
  for (const order of [
    ['revoke', resource, '1'],
    ['pause', resource],
    ['resize', resource, '3'],
    ['resume', resource],
  ]) {
    const { code, stderr } = await run([...order, ...(order[0] === 'resume' ? [] : ['--yes'])]);
    assert.match(stderr, /is a Workflow of type "train".*temporal workflow terminate -w /, order[0]);
    assert.equal(code, 69);
  }
  await Promise.all(strangers.map((stranger) => stranger.terminate()));
  await permit.release();
});

test('why names a stranger in a slot, and a pace with its end; doctor blames no lack of slots; revoke says that it ends a pace', async () => {
  const strange = temporal.resource();
  const workflowId = permitId({ resource: strange, slot: '0' });
  const stranger = await temporal.client.workflow.start('train', { workflowId, taskQueue: `nobody-${randomUUID()}` });
  const paced = temporal.resource();
  const semaphore = { ...CAPACITY_1, pace: { every: '10 minutes' } } as const;
  await (await startHolder(temporal, { resource: paced, semaphore, holdMs: 0 })).result();
  const behind = await startHolder(temporal, { resource: strange, semaphore: CAPACITY_1, holdMs: 0 });
  const next = await startHolder(temporal, { resource: paced, semaphore, holdMs: 0 });
  for (const resource of [strange, paced]) await untilWaiting(temporal.client, resource, 1);

  const why = await output(['why', behind.workflowId, '--resource', strange]);
  assert.match(why, /\n +0 +a Workflow of type "train" /);
  assert.match(
    why,
    /bad +".*": permit:.* is a Workflow of type "train", not of temporal-semaphore\n.*terminate it by its ID/,
  );
  assert.match(
    await output(['why', next.workflowId, '--resource', paced]),
    /\n +0 +no holder: paced, free in 9m \d+s /,
  );
  assert.match(await output(['ls', paced, '--capacity', '1']), /\n +0 +paced +no holder: paced, free in 9m \d+s /);
  await eventually(async () => {
    const found: Finding[] = JSON.parse((await run(['doctor', '--waiting-longer', '0s', '--json'])).stdout);
    const advices = [strange, paced].map((resource) => {
      const { advice } = found.find(({ what }) => what.startsWith(`"${resource}": 1 waiting`)) ?? assert.fail();
      return advice;
    });
    assert.deepEqual(
      advices.map((advice) => advice?.split('. ').slice(1)),
      [[], ['Its pace keeps each slot taken for a while after a hold.']],
    );
  });
  const ended = await output(['revoke', paced, '0', '--yes']);
  assert.match(
    ended,
    /^Ended the pace of slot "0" of ".*", 9m \d+s early: the next hold comes sooner than the pace allows\.\n$/,
  );
  await next.result();
  await output(['revoke', paced, '0', '--yes']);
  await stranger.terminate();
  await behind.terminate();
});

test('nothing that comes from elsewhere can write to the terminal', async () => {
  const resource = temporal.resource();
  const purpose = 'red \x1b[31m bell \x07 csi \x9b31m turned \u202e\u2028';
  const permit = await pool(resource).acquire({ purpose });
  const text = await output(['ls', resource, '--capacity', '1']);
  const json = await output(['ls', resource, '--capacity', '1', '--json']);
  assert.doesNotMatch(text + json, /[^\n\P{C}]|[\p{Zl}\p{Zp}]/u);
  assert.match(text, /red \\u\{1b\}\[31m bell \\u\{7\} csi \\u\{9b\}31m turned \\u\{202e\}\\u\{2028\}/);
  assert.equal(JSON.parse(json).slots[0].permit.purpose, purpose);
  await permit.release();
});

test('why: what a Workflow waits for, who is ahead, who holds; and what the holder holds', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: CAPACITY_1, holdMs: 0 };
  const { handle: holder } = await startHolding(temporal, { ...input, holdMs: undefined });
  const first = await startHolder(temporal, input);
  await untilWaiting(temporal.client, resource, 1);
  const second = await startHolder(temporal, input);
  await untilWaiting(temporal.client, resource, 2);

  const { resources } = await jsonOf(['why', second.workflowId, '--resource', resource]);
  assert.deepEqual(
    [resources.length, resources[0].resource, resources[0].waits.place, resources[0].ahead[0].workflowId],
    [1, resource, 2, first.workflowId],
  );
  assert.equal(resources[0].slots[0].permit.holder.workflowId, holder.workflowId);
  const text = await eventually(async () => {
    const said = await output(['why', second.workflowId]);
    assert.match(said, new RegExp(`waits for a permit of ${resource}, number 2 in the queue`));
    return said;
  });
  assert.match(text, new RegExp(`\n${first.workflowId} +3 `));
  assert.match(text, new RegExp(`\n +0 +${holder.workflowId} `));
  const holds = await output(['why', holder.workflowId, '--resource', resource]);
  assert.match(
    holds,
    new RegExp(
      `^${holder.workflowId} holds slot 0 of ${resource}, for .*\n${holder.workflowId} waits for no permit\\.\n$`,
    ),
  );
  const nobody = await run(['why', 'nobody', '--resource', resource]);
  assert.equal(nobody.code, 1);
  assert.equal(nobody.stderr, 'temporal-semaphore: nobody neither waits for a permit nor holds one.\n');
  await holder.signal(workflows.finish);
  await Promise.all([first.result(), second.result()]);
});

test('ls and why show a holder that gives way', async () => {
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, {
    resource,
    semaphore: CAPACITY_1,
    acquire: { priority: { priorityKey: 4 }, preemptible: { grace: '1 minute', atCheckpoints: true } },
  });
  const waiting = pool(resource).acquire({ priority: { priorityKey: 1 }, preempt: true });
  await eventually(async () => {
    assert.match(await output(['ls', resource, '--capacity', '1']), /\n +0 +gives way +holder-/);
  });
  const holds = await output(['why', handle.workflowId, '--resource', resource]);
  assert.match(holds, /has asked for this permit, which gives way by 2\d{3}-.*Z at the latest\.\n/);
  const [waiter] = (await jsonOf(['ls', resource, '--capacity', '1'])).waiters;
  const waits = await output(['why', waiter.workflowId, '--resource', resource]);
  assert.match(waits, new RegExp(`${handle.workflowId}, which gives way `));
  await handle.signal(workflows.finish);
  await (await waiting).release();
});

test('revoke: not unasked; with --yes the holder is told why; what is not held exits 66', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: CAPACITY_1 });
  const unasked = await run(['revoke', resource, '0']);
  assert.equal(unasked.code, 64);
  assert.match(unasked.stderr, /No terminal for confirmation: pass --yes\.\n$/);
  const other = await run(['revoke', resource, '0', '--run-id', randomUUID(), '--yes']);
  assert.equal(other.code, 66);
  assert.equal((await handle.describe()).status.name, 'RUNNING');

  const taken = await jsonOf(['revoke', resource, '0', '--reason', 'node drain', '--yes']);
  assert.equal(taken.runId, runId);
  await assertFails(handle.result(), 'PermitLostError', /an operator revoked it \(node drain\)/);
  const next = await pool(resource).acquire();
  const said = await output(['revoke', resource, next.slot, '--yes']);
  assert.match(
    said,
    /^Took slot "0" .*\nUntil the holder is notified, its work goes on, .* cancel the holder's Workflow, or stop its process \(run, a service\), instead\.\n$/,
  );
  const gone = await run(['revoke', resource, '0', '--yes']);
  assert.equal(gone.code, 66);
  assert.match(gone.stderr, /No caller holds slot "0"/);
});

test('on a terminal it asks, no means no, and Ctrl-C exits 130', { skip: lacking('terminal') }, async () => {
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: CAPACITY_1 });
  const refused = async (answer: string, code: number) => {
    const asked = cli(['revoke', resource, '0'], { onTerminal: true });
    await asked.says(/(\[y\/N\])/);
    asked.types(answer);
    assert.equal(await asked.exit, code, asked.stdout);
    assert.match(asked.stdout, /\n$/, 'it leaves the line of its question');
    assert.doesNotMatch(asked.stdout, /\n\r?\n$/);
  };
  await Promise.all([refused('n\r', 1), refused('\r', 1), refused('\x04', 1), refused('\x03', 130)]);
  assert.equal((await handle.describe()).status.name, 'RUNNING');
  const { slots } = await operatorOf(pool(resource)).inspect();
  assert.equal(slots[0]?.permit?.holder.workflowId, handle.workflowId);

  const asked = cli(['revoke', resource, '0'], { onTerminal: true });
  assert.match(await asked.says(/(Take slot .*\?)/), new RegExp(`from ${handle.workflowId}`));
  asked.types('y\r');
  assert.equal(await asked.exit, 0, asked.stdout);
  await assertFails(handle.result(), 'PermitLostError', /revoked/);
});

test('ls of what nobody holds or waits for exits 1 and says so; with its capacity it shows free slots', async () => {
  const resource = temporal.resource();
  const [text, json] = [await run(['ls', resource]), await run(['ls', resource, '--json'])];
  assert.deepEqual([text.code, json.code], [1, 1]);
  assert.deepEqual([text.stdout, JSON.parse(json.stdout).slots], ['', []]);
  assert.match(text.stderr, new RegExp(`^temporal-semaphore: no caller holds or waits for a permit of "${resource}"`));
  assert.match(await output(['ls', resource, '--capacity', '2']), / 1 +free/);
});

test('as Temporal has it: -o json and jsonl, and -n', async () => {
  const resource = temporal.resource();
  const args = ['ls', resource, '--capacity', '2', '-n', 'default'];
  const [json, lines] = await Promise.all([output([...args, '-o', 'json']), output([...args, '-o', 'jsonl'])]);
  assert.deepEqual(JSON.parse(json), JSON.parse(lines));
  assert.deepEqual([json.includes('\n  '), lines.trimEnd().includes('\n')], [true, false]);
  const findings = (await output(['doctor', '-o', 'jsonl'])).trimEnd().split('\n');
  assert.ok(findings.length >= 2 && findings.every((line) => JSON.parse(line).is));
  const at = temporal.env.address;
  const elsewhere = `temporal-semaphore: There is no namespace "elsewhere" at ${at}. Name another with --namespace or TEMPORAL_NAMESPACE.\n`;
  for (const command of [['ls'], ['run', 'pool', '--capacity', '1'], ['worker']]) {
    const { code, stderr } = await host.run([
      ...command,
      '-n',
      'elsewhere',
      '--address',
      at,
      ...(command[1] ? ['--', 'true'] : []),
    ]);
    assert.deepEqual([code, stderr], [69, elsewhere], command[0]);
  }
});

test('watch: no line is wider than the terminal, and the run IDs come with --wide', {
  skip: lacking('terminal'),
}, async () => {
  const resource = temporal.resource();
  const permit = await pool(resource, 20).acquire({ purpose: `long ${'x'.repeat(200)}` });
  const args = ['watch', resource, '--capacity', '20', '--every', '200ms'];
  const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue];
  const size = { rows: 16, columns: 80 };
  const [narrow, wide] = [
    new CliProcess([...args, ...to], size),
    // High enough for all slots: which of them the permit got, nobody knows.
    new CliProcess([...args, '--wide', ...to], { rows: 60, columns: 400 }),
  ];
  for (const started of [narrow, wide]) clean.push(() => started.signal('SIGKILL'));
  await Promise.all([wide.says(/(run ID)/), wide.says(new RegExp(`(${permit.runId})`))]);
  await narrow.says(/(1 of 20 held)/);
  // It draws again when something that it shows has changed.
  await permit.release();
  await narrow.says(/(0 of 20 held)/);
  for (const started of [narrow, wide]) started.types('\x03');
  assert.deepEqual(await Promise.all([narrow.exit, wide.exit]), [130, 130]);
  assert.ok(!narrow.stdout.includes(permit.runId));
  // As the terminal shows it: without colours and cursor, drawing by drawing.
  const drawings = narrow.stdout.split('\x1b[G').map((drawing) => stripVTControlCharacters(drawing).split('\r\n'));
  for (const lines of drawings) {
    assert.ok(lines.length <= size.rows, `${lines.length} lines`);
    for (const line of lines) assert.ok([...line].length <= size.columns, `${[...line].length} columns: ${line}`);
  }
});

test('ls and why cut their lines to the terminal, but not with --wide', { skip: lacking('terminal') }, async () => {
  const resource = temporal.resource();
  const purpose = `long ${'x'.repeat(200)}`;
  const permit = await pool(resource).acquire({ purpose });
  const waiter = pool(resource).acquire();
  await untilWaiting(temporal.client, resource, 1);
  const { identity } = temporal.client.options;
  const to = ['--address', temporal.env.address];
  const on60 = async (...args: string[]) => {
    const started = new CliProcess([...args, ...to], { rows: 40, columns: 60 });
    clean.push(() => started.signal('SIGKILL'));
    assert.equal(await started.exit, 0, started.stdout);
    return stripVTControlCharacters(started.stdout).split('\r\n');
  };
  const [one, all, why, wide] = await Promise.all([
    on60('ls', resource),
    on60('ls'),
    on60('why', identity, '--resource', resource),
    on60('ls', resource, '--wide'),
  ]);
  for (const lines of [one, all, why.slice(3)]) {
    assert.deepEqual(
      lines.filter((line) => [...line].length > 60),
      [],
    );
  }
  assert.ok(one.some((line) => line.endsWith('…')));
  assert.ok(wide.some((line) => line.includes(purpose) && line.endsWith(permit.runId)));
  await permit.release();
  await (await waiter).release();
});

test('whoever stops reading ends it quietly, as other programs end', async () => {
  const resource = temporal.resource();
  const watch = cli(['watch', resource, '--capacity', '1', '--every', '100ms', '--json']);
  await watch.says(/("state":"free")/);
  watch.stopsReading();
  assert.equal(await watch.exit, 141);
  assert.equal(watch.stderr, '');
});

test('resize, pause and resume, and what is set stands in ls', async () => {
  const resource = temporal.resource();
  const unknown = await run(['pause', resource, '--yes']);
  assert.equal(unknown.code, 64);
  assert.match(unknown.stderr, /how many slots .* give --capacity or --slots/);

  const resized = await jsonOf(['resize', resource, '1', '--capacity', '2', '--reason', 'maintenance', '--yes']);
  assert.deepEqual([resized.capacity, resized.paused, resized.reason], [1, false, 'maintenance']);
  const seen = await eventually(async () => {
    const text = await output(['ls', resource]);
    assert.match(text, /1 drained/);
    return text;
  });
  assert.match(seen, new RegExp(`^${resource}: 0 of 1 held, 1 drained, 0 waiting \\[resized to 1: maintenance\\]\n`));

  const stale = await run(['pause', resource, '--if-version', '1', '--yes']);
  assert.equal(stale.code, 75);
  assert.match(stale.stderr, /Expected override version 1 of /);
  const version = String(resized.version);
  assert.match(
    await output(['pause', resource, '--if-version', version, '--yes']),
    /: paused, and resized to 1 \(version \d+\)\.\n$/,
  );
  await eventually(async () => assert.equal((await jsonOf(['ls', resource])).override?.paused, true));
  assert.equal((await jsonOf(['resume', resource, '--yes'])).capacity, 1);
  const askedMs = Date.now();
  const untilMs = Date.parse((await jsonOf(['pause', resource, '--until', '10m', '--yes'])).pausedUntil);
  assert.ok(untilMs >= askedMs + 600_000 && untilMs <= Date.now() + 600_000, `${untilMs - askedMs} ms`);
  const time = '2036-01-31T18:00:00.000Z';
  const longer = await output(['pause', resource, '--until', time, '--yes']);
  assert.match(longer, new RegExp(`: paused until ${time}, and resized to 1 \\(version \\d+\\)\\.\n$`));
  assert.match(await output(['ls', resource]), new RegExp(`\\[paused until ${time}, and resized to 1\\]`));
  assert.equal((await jsonOf(['resume', resource, '--yes'])).capacity, 1);
  const demo = await output(['resize', resource, '2', '--until', time, '--reason', 'a demo', '--yes']);
  assert.match(demo, new RegExp(`: as declared until ${time}, then 1: a demo \\(version \\d+\\)\\.\n$`));
  assert.match(await output(['ls', resource]), new RegExp(`\\[as declared until ${time}, then 1: a demo\\]`));
  assert.match(
    await output(['resize', resource, '2', '--yes']),
    new RegExp(`^${resource}: as it was deployed, with 2 slots\\.\n$`),
  );
});

test('resize to fewer names those who still hold slots out of use, and resize to none names pause', async () => {
  const resource = temporal.resource();
  const two = pool(resource, 2);
  const permits = [await two.acquire({ purpose: 'nightly' }), await two.acquire({ purpose: 'nightly' })];
  for (const capacity of [[], ['--capacity', '2']]) {
    const resized = await output(['resize', resource, '1', ...capacity, '--yes']);
    assert.match(
      resized,
      new RegExp(
        `^${resource}: resized to 1 \\(version \\d+\\)\\.\n` +
          ' +above the limit until it is released: slot 1, \\d+@\\S+ \\(for .* s, nightly\\)\n$',
      ),
    );
  }
  const none = await run(['resize', resource, '0', '--yes']);
  assert.equal(none.code, 64);
  assert.match(none.stderr, /a whole number from 1 to 1000 \(to give none, use pause\), got 0/);
  for (const permit of permits) await permit.release();
  assert.match(await output(['resize', resource, '2', '--yes']), /: as it was deployed, with 2 slots\.\n$/);
});

test('ls shows each slot of a resource that was resized and then paused, and none of them as free', async () => {
  const resource = temporal.resource();
  await output(['resize', resource, '3', '--capacity', '2', '--yes']);
  await output(['pause', resource, '--yes']);
  await eventually(async () => {
    const text = await output(['ls', resource]);
    assert.match(text, new RegExp(`^${resource}: 0 of 3 held, 3 drained, 0 waiting \\[paused, and resized to 3\\]\n`));
    assert.equal(text.match(/^ *[012] +drained/gm)?.length, 3, text);
  });
  await output(['resume', resource]);
  const { free, slots } = await eventually(async () => {
    const seen = await jsonOf(['ls', resource]);
    assert.equal(seen.free, 3);
    return seen;
  });
  assert.deepEqual([free, slots.length], [3, 3]);
  await output(['resize', resource, '2', '--yes']);
});

test('a flag that a command does not have is refused in the name of that command, and none is guessed at', async () => {
  for (const [name, flag] of [
    ['resize', '--for'],
    ['revoke', '--until'],
  ] as const) {
    const { code, stderr } = await run([name, 'gpus', '1', flag, '10m']);
    assert.deepEqual([code, stderr], [64, `error: ${name} has no option '${flag}'\n`]);
  }
});

test('an order goes to the task queue of the permits that run: a busy resource needs no flag', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const to = ['--yes', '--address', temporal.env.address];
  const { code, stdout, stderr } = await host.run(['pause', resource, ...to]);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, new RegExp(`^${resource}: paused \\(version \\d+\\)\\.\n$`));
  assert.equal((await host.run(['resume', resource, ...to])).code, 0);
  await permit.release();
});

test('watch: it goes on when the server does not answer for a while', async () => {
  const resource = temporal.resource();
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const watch = new CliProcess(['watch', resource, '--capacity', '1', '--every', '200ms', '--address', proxy.address]);
  clean.push(() => watch.signal('SIGKILL'));
  await watch.says(/(0 of 1 held)/);
  proxy.cut('reset');
  await watch.says(/(trying again)/);
  proxy.mend();
  const permit = await pool(resource).acquire();
  await watch.says(/(1 of 1 held)/);
  await permit.release();
  proxy.cut('silent');
  await delay(500); // a look is under way
  const { length } = watch.stderr;
  watch.signal('SIGINT');
  assert.equal(await watch.exit, 130);
  assert.equal(watch.stderr.slice(length), '', 'Ctrl-C does not wait until the look has failed');
});

test('watch: a slot that is seen for the first time is news, where nobody knows the size of the pool', async () => {
  const resource = temporal.resource();
  const watch = cli(['watch', resource, '--every', '200ms']);
  await watch.says(/(0 held)/);
  const permit = await pool(resource).acquire();
  await watch.says(/(slot 0: held by )/);
  await permit.release();
  await watch.says(/(slot 0: free)/);
  watch.signal('SIGINT');
  assert.equal(await watch.exit, 130);
});

test('watch: lines of changes, JSON lines, and on a terminal one table over and over', {
  skip: lacking('terminal'),
}, async () => {
  const resource = temporal.resource();
  const args = ['watch', resource, '--capacity', '1', '--every', '200ms'];
  const [lines, json, terminal] = [cli(args), cli([...args, '--json']), cli(args, { onTerminal: true })];
  await Promise.all([
    lines.says(/^(\d{4}-\d\d-\d\dT[\d:.]+Z .*: 0 of 1 held, 0 waiting\n)/),
    json.says(/("state":"free")/),
    terminal.says(/(0 of 1 held)/),
  ]);
  const permit = await pool(resource).acquire();
  await Promise.all([lines.says(/(slot 0: held by )/), json.says(/("state":"held")/), terminal.says(/(1 of 1 held)/)]);
  await permit.release();
  await lines.says(/(slot 0: free)/);
  for (const started of [lines, json]) started.signal('SIGINT');
  terminal.types('\x03');
  assert.deepEqual(await Promise.all([lines.exit, json.exit, terminal.exit]), [130, 130, 130]);
  const looks = json.stdout.trim().split('\n');
  assert.ok(looks.length >= 2);
  for (const look of looks) {
    const { at, resource: shown } = JSON.parse(look);
    assert.equal(shown, resource);
    assert.ok(Math.abs(Date.now() - Date.parse(at)) < 60_000);
  }
  assert.ok(terminal.stdout.includes('\x1b[1A'), 'drawn over');
});

test('doctor: finds a healthy pool well, and what is wrong with another', { skip: lacking('ownServer') }, async () => {
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: CAPACITY_1 });
  const waiter = await startHolder(temporal, { resource, semaphore: CAPACITY_1, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  await eventually(async () => {
    const found: Finding[] = await jsonOf(['doctor', '--waiting-longer', '0s', '--probe']);
    const all = found.map(({ is, what }) => `${is} ${what}`).join('\n');
    assert.match(all, /^ok server 1\.\d+\.\d+ generates ordered run IDs/m);
    assert.match(all, /^ok task queue "test-.*" has [1-9]\d* pollers?, last seen \d+\.\d s ago$/m);
    assert.doesNotMatch(all, /development server/, 'ours has no limit, and the probe shows it');
    assert.match(all, new RegExp(`^warning "${resource}": 1 waiting .*, ${waiter.workflowId}, for `, 'm'));
    assert.match(found.find(({ is }) => is === 'warning')?.advice ?? '', /too few slots/);
    assert.match(all, /^ok \d+ resources? in use, no permit is past its lease/m);
    assert.match(all, /^(ok|warning) one acquire and release takes \d+ ms/m);
  });
  await handle.signal(workflows.finish);
  await waiter.result();

  const dead = `nobody-${randomUUID()}`;
  const stuck = new SemaphoreClient(temporal.client, temporal.resource(), { ...CAPACITY_1, taskQueue: dead });
  const permit = await stuck.acquire();
  const found = await eventually(async () => {
    const doctor = await run(['doctor'], dead);
    assert.equal(doctor.code, 1);
    assert.match(doctor.stdout, new RegExp(`bad +slot "0" of "${stuck.resource}".*: no worker answers`));
    return doctor.stdout;
  });
  assert.match(found, /: no worker answers on task queue "nobody-.*", and no worker polls it\n/);
  assert.match(found, /Start a permit worker/);
  await temporal.client.workflow.getHandle(permit.workflowId).terminate();
});

test('wrong usage exits 64, no server 69, and no secret is told', async () => {
  const secret = 'the-secret-key';
  const usages: Ended[] = [];
  for (const args of [
    ['ls', 'pool', '--capacity', 'many'],
    ['ls', 'pool', '--capacity', '0'],
    ['watch', 'pool', '--every', '1ms'],
    ['revoke', 'pool', 'a:b'],
    ['resize', 'pool', '-1'],
    ['resize', 'pool', '2', '--key', '*', '--capacity', '3'],
    ['resize', 'pool', '2', '--key', 'acme', '--capacity', '3'],
    ['pause', 'pool', '--per-key', '3'],
    ['watch', 'pool', '--key', '*'],
    ['ls', '--key', 'acme'],
    ['ls', 'pool', '--keys', '--key', 'acme'],
    ['pause', 'pool', '--until', '90'],
    ['pause', 'pool', '--until', '2020-01-31T18:00:00Z'],
    ['pause', 'pool', '--until', 'soon'],
    ['resize', 'pool', '2', '--until', '25:00'],
    ['doctor', '--waiting-longer', 'soon'],
  ]) {
    usages.push(await host.run([...args, '--api-key', secret]));
  }
  const nowhere = await host.run(['ls', '--address', '127.0.0.1:1', '--no-tls', '--api-key', secret]);
  assert.deepEqual(
    [...usages, nowhere].map(({ code }) => code),
    [...usages.map(() => 64), 69],
  );
  for (const { stdout, stderr } of [...usages, nowhere]) {
    assert.ok(stderr !== '' && !(stdout + stderr).includes(secret), stderr);
  }
});

test('a process of its own says the same, and exits with that code', async () => {
  const resource = temporal.resource();
  for (const [args, expected] of [
    [['ls', resource, '--capacity', '2', '-o', 'json'], 0],
    [['ls', resource], 1],
    [['revoke', resource, '0', '--yes'], 66],
  ] as const) {
    const alone = cli([...args]);
    const code = await alone.exit;
    const { stdout, stderr } = alone;
    assert.equal(code, expected, stderr);
    assert.deepEqual(await run([...args]), { code, stdout, stderr });
  }
});
