import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { Client } from '@temporalio/client';
import { lacking } from '../../scripts/support/requirements';
import { SemaphoreClient } from '../../src/client';
import { permitId, queueId } from '../../src/shared/permit-id';
import { QUEUE_VIEW } from '../../src/shared/protocol';
import { CliHost } from '../support/cli-host';
import { CliProcess } from '../support/cli-process';
import { operatorOf } from '../support/operators';
import { eventually, untilWaiting, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

// Anybody in the namespace may send anything. Nothing of it may move a cursor, colour, or forge a line on a terminal.

const clean: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

const temporal = useTemporal();

const HOSTILE = 'red \x1b[31m bell \x07 csi \x9b31m title \x1b]0;owned\x07 turned \u202e\u2028\nforged';

/** Of {@link HOSTILE}, nothing that our own colours and cursor need too. */
const RAW = ['\x07', '\x1b]', '\x9b', '\u202e', '\u2028', '\x1b[31m bell', '\nforged'];

function assertNoneRaw(said: string, what: string): void {
  for (const raw of RAW) assert.ok(!said.includes(raw), `${what}: ${JSON.stringify(said)}`);
}

function client(identity: string): Client {
  return new Client({ connection: temporal.client.connection, identity });
}

function poolOf(resource: string, { identity = 'honest', capacity = 1 } = {}): SemaphoreClient {
  return new SemaphoreClient(client(identity), resource, { capacity, taskQueue: temporal.taskQueue, lease: '2m' });
}

function cli(args: string[], onTerminal = false): CliProcess {
  const started = new CliProcess(toServer(args), onTerminal);
  clean.push(() => started.signal('SIGKILL'));
  return started;
}

function toServer(args: string[]): string[] {
  const to = ['--address', temporal.env.address];
  if (args[0] !== 'why') to.push('--task-queue', temporal.taskQueue);
  const at = args.indexOf('--') < 0 ? args.length : args.indexOf('--');
  return [...args.slice(0, at), ...to, ...args.slice(at)];
}

const skip = lacking('terminal');
const [ONTO_PIPES, ONTO_A_TERMINAL] = [new CliHost(), new CliHost(true)];

/** All that it says, on a pipe and on a terminal. `seen`: what shows that the hostile text was there. */
async function assertTame(args: string[], seen: RegExp | null = /\\u\{1b\}\[31m/): Promise<void> {
  const hosts = [ONTO_PIPES, ...(skip ? [] : [ONTO_A_TERMINAL])];
  const [piped, onTerminal = piped] = await Promise.all(hosts.map(async (host) => await host.run(toServer(args))));
  assert.ok(piped && onTerminal);
  const all = piped.stdout + piped.stderr;
  assert.doesNotMatch(all, /[^\n\P{C}]|[\p{Zl}\p{Zp}]/u, args.join(' '));
  for (const said of [all, onTerminal.stdout]) {
    assertNoneRaw(said, args.join(' '));
    if (seen) assert.match(said, seen, args.join(' '));
  }
}

async function impersonate(workflowId: string, query: string, answer: unknown): Promise<void> {
  await temporal.client.workflow.start(workflows.impostor, {
    workflowId,
    taskQueue: temporal.taskQueue,
    args: [query, answer],
  });
  clean.push(() => temporal.client.workflow.getHandle(workflowId).terminate());
}

test('holders, purposes, waiters, fairness keys and reasons: in every command that shows a pool', {
  skip,
}, async () => {
  const resource = temporal.resource();
  const pool = poolOf(resource, { identity: HOSTILE });
  const permit = await pool.acquire({ purpose: HOSTILE });
  const next = poolOf(resource, { identity: `w${HOSTILE}` }).acquire({
    priority: { fairnessKey: HOSTILE.slice(0, 40) },
  });
  await untilWaiting(temporal.client, resource, 1);
  await operatorOf(pool).pause({ reason: HOSTILE });

  await assertTame(['ls', resource]);
  await assertTame(['ls', resource, '--recent', '5', '--wide']);
  await assertTame(['ls', resource, '--json'], /\\u001b\[31m/);
  await assertTame(['ls', resource, '-o', 'jsonl'], /\\u001b\[31m/);
  await eventually(async () => await assertTame(['ls'], /\\u\{1b\}\[31m/));
  await assertTame(['why', `w${HOSTILE}`, '--resource', resource]);
  await assertTame(['why', `x${HOSTILE}`, '--resource', resource]);
  await assertTame(['doctor', '--waiting-longer', '0s']);
  const watches = [cli(['watch', resource]), cli(['watch', resource], true), cli(['watch', resource, '--json'])];
  for (const watch of watches) {
    await watch.says(/(\[31m bell)/);
    assertNoneRaw(watch.stdout, 'watch');
    watch.signal('SIGKILL');
  }
  const asked = cli(['revoke', resource, '0'], true);
  await asked.says(/(\[y\/N\])/);
  asked.types('n\r');
  await asked.exit;
  assert.match(asked.stdout, /\\u\{1b\}\[31m/);
  assertNoneRaw(asked.stdout, 'revoke');
  await assertTame(['resize', resource, '2', '--capacity', '2', '--reason', HOSTILE, '--yes'], null);
  await operatorOf(pool).resume();
  await permit.release();
  await (await next).release();
});

test("the revoker's reason, in run", async () => {
  const resource = temporal.resource();
  const run = cli(['run', resource, '--capacity', '1', '--', 'sh', '-c', 'echo ready; exec sleep 60']);
  await run.says(/(ready)/);
  await operatorOf(poolOf(resource)).revoke('0', { reason: HOSTILE });
  assert.equal(await run.exit, 143);
  assert.match(run.stderr, /an operator revoked it \(red \\u\{1b\}\[31m bell/);
  assertNoneRaw(run.stderr, 'run');
});

/** A permit's outcome, and what a queue says, need not be of the type that it should. */
const ODD = [HOSTILE, { content: HOSTILE, colSpan: 1e6, hAlign: {} }, [HOSTILE]];

test('permits that end with anything', async () => {
  const resource = temporal.resource();
  for (const [index, outcome] of ODD.entries()) {
    await temporal.client.workflow.execute(workflows.echo, {
      workflowId: permitId({ resource, slot: String(index) }),
      taskQueue: temporal.taskQueue,
      args: [outcome],
      memo: { holder: { identity: `holder ${index}` } },
    });
  }
  await eventually(async () => {
    const { recent } = await operatorOf(poolOf(resource)).inspect();
    assert.equal(recent.length, ODD.length);
  });
  await assertTame(['ls', resource, '--capacity', String(ODD.length), '--recent', '9'], /holder 2.*holder 0/s);
  await assertTame(['ls', resource, '--capacity', String(ODD.length), '--recent', '9', '--json'], null);
});

test('queues that say anything, wherever they can', async () => {
  for (const odd of ODD) {
    const resource = temporal.resource();
    const ticket = { id: 't', waiter: { workflowId: odd, runId: odd }, slots: 1, sinceMs: 1 };
    await impersonate(queueId(resource), QUEUE_VIEW, {
      tickets: [{ ...ticket, priorityKey: odd, fairnessKey: odd, identity: odd }],
      slots: [],
      shares: [],
      override: { version: odd, slots: 1, capacity: odd, paused: false, reason: odd },
    });
    await assertTame(['ls', resource, '--capacity', '1', '--wide'], null);
    await assertTame(['why', `${odd}`, '--resource', resource], null);
  }
  await assertTame(['ls'], null);
  await assertTame(['doctor', '--waiting-longer', '0s'], null);
});

test('one file alone writes to the terminal, and one alone says that a text is our own', () => {
  const directory = join(__dirname, '..', '..', 'src', 'cli');
  const having = (pattern: RegExp) =>
    readdirSync(directory)
      .filter((name) => !name.endsWith('.test.ts') && pattern.test(readFileSync(join(directory, name), 'utf8')))
      .sort();
  // log-update and readline draw what is a Text already.
  assert.deepEqual(having(/console\.|std(out|err)\.write|process\.stdout\)/), ['terminal.ts', 'watch.ts']);
  assert.deepEqual(having(/Text\.ours/), ['text.ts']);
  assert.deepEqual(having(/from 'picocolors'/), ['text.ts']);
});
