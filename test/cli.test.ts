import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { TcpProxy } from '../scripts/support/tcp-proxy';
import { SemaphoreClient } from '../src/client';
import { permitId } from '../src/shared/permit-id';
import { REVOKE } from '../src/shared/protocol';
import { CliHost, type Ended } from './support/cli-host';
import { CliProcess } from './support/cli-process';
import { RefusingProxy } from './support/refusing-proxy';
import { untilWaiting, useTemporal } from './support/temporal';

const temporal = useTemporal({ shared: true });

/** Heeds no TERM. */
const STUBBORN = 'trap "" TERM; echo ready; while :; do sleep 0.1; done';

const clean: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

interface RunOptions {
  resource: string;
  flags?: string[];
  address?: string;
  taskQueue?: string;
}

const host = new CliHost(false, { TEMPORAL_SEMAPHORE_TOKEN: 'the-key-of-the-page' });

/** Runs a command under a permit to its end. */
async function run(options: RunOptions, ...command: string[]): Promise<Ended> {
  return await host.run(words(options, command));
}

/** The same in a process of its own. */
function start(options: RunOptions, ...command: string[]): CliProcess {
  const started = new CliProcess(words(options, command));
  clean.push(() => started.signal('SIGKILL'));
  return started;
}

function words({ resource, flags = [], address, taskQueue }: RunOptions, command: string[]): string[] {
  const to = ['--address', address ?? temporal.env.address, '--task-queue', taskQueue ?? temporal.taskQueue];
  return ['run', resource, '--capacity', '1', ...to, ...flags, '--', ...command];
}

async function proxied(): Promise<TcpProxy> {
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  return proxy;
}

/** A command that says `ready`, and goes on when it may. */
function gated(goesOn: string) {
  const gate = join(tmpdir(), `cli-gate-${randomUUID()}`);
  clean.push(() => rmSync(gate, { force: true }));
  const wait = `trap "" TERM; echo ready; until [ -e ${gate} ]; do sleep 0.1; done; ${goesOn}`;
  return { command: ['sh', '-c', wait], open: () => writeFileSync(gate, '') };
}

function pool(resource: string): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
}

function permitOf(resource: string) {
  return temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
}

/** A dead process that nobody buries, as in a container without an init, is not alive. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** The process ID of the child whose command line has `text`. A small Linux has no `pgrep`. */
function childOf(parent: number | undefined, text: string): number {
  if (process.platform !== 'linux') {
    return Number(spawnSync('pgrep', ['-P', String(parent), '-f', text], { encoding: 'utf8' }).stdout);
  }
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim().split(' ');
  return Number(children.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)));
}

test('with --also the command runs under permits of several resources, all or none', async () => {
  const [resource, licences] = [temporal.resource(), temporal.resource('licences')];
  const flags = ['--also', `${licences}=a,b`];
  const { code, stdout, stderr } = await run({ resource, flags }, 'sh', '-c', 'echo "$PERMITS $PERMIT_RESOURCE"');
  assert.equal(code, 0, stderr);
  const [, json = '', first] = stdout.match(/^(\[.*\]) (.*)\n$/) ?? [];
  assert.equal(first, resource);
  const permits = JSON.parse(json) as { resource: string; slot: string; runId: string; fencingToken: string }[];
  assert.deepEqual(
    permits.map((permit) => permit.resource),
    [resource, licences],
  );
  for (const permit of permits) {
    assert.equal(permit.fencingToken, `${permit.resource}/${permit.slot}/${permit.runId}`);
    const handle = temporal.client.workflow.getHandle(permitId(permit), permit.runId);
    assert.equal(await handle.result(), 'released');
  }

  const held = await pool(resource).acquire();
  const late = await run({ resource, flags: [...flags, '--timeout', '1s'] }, 'true');
  assert.equal(late.code, 75);
  assert.match(late.stderr, new RegExp(`No permit of "${resource}" came free`));
  await held.release();
  for (const also of ['licences', `${resource}=2`]) {
    assert.equal((await run({ resource, flags: ['--also', also] }, 'true')).code, 64);
  }
});

test('the command knows its permit, and its exit code is ours', async () => {
  const resource = temporal.resource();
  const show = 'echo "$PERMIT_RESOURCE $PERMIT_SLOT $PERMIT_WORKFLOW_ID $PERMIT_RUN_ID $PERMIT_FENCING_TOKEN"; exit 7';
  const ended = await run({ resource, flags: ['--purpose', 'proof'] }, 'sh', '-c', show);
  const { runId, status, memo } = await permitOf(resource).describe();
  assert.deepEqual(ended, {
    code: 7,
    stdout: `${resource} 0 permit:${resource}:0 ${runId} ${resource}/0/${runId}\n`,
    stderr: '',
  });
  assert.equal(status.name, 'COMPLETED');
  assert.equal(memo?.purpose, 'proof');
});

for (const [what, command, expected, said] of [
  ['what can not be executed exits 126, and says why', ['./package.json/job'], 126, /package.json.job: .*ENOTDIR/],
  ["a missing command's exit code is 127", ['there-is-no-such-command'], 127, /such-command: command not found/],
  ["a signal's exit code is 128 + n", ['sh', '-c', 'kill -KILL $$'], 137, /^$/],
] as const) {
  test(what, async () => {
    const { code, stderr } = await run({ resource: temporal.resource() }, ...command);
    assert.equal(code, expected, stderr);
    assert.match(stderr, said);
  });
}

test('full: --try exits 75 at once, --timeout when late, and neither runs the command', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const tried = await run({ resource, flags: ['--try'] }, 'echo', 'ran');
  const late = await run({ resource, flags: ['--timeout', '1s'] }, 'echo', 'ran');
  const waiting = pool(resource).acquire();
  await untilWaiting(temporal.client, resource, 1);
  const bounded = await run({ resource, flags: ['--max-waiting', '1'] }, 'echo', 'ran');
  for (const { code, stdout } of [tried, late, bounded]) assert.deepEqual([code, stdout], [75, '']);
  assert.match(tried.stderr, /is free: all slots are held\. Try later/);
  assert.doesNotMatch(tried.stderr, /within/);
  assert.match(late.stderr, /within 1000 ms: all slots are held/);
  assert.match(bounded.stderr, /the line is full: maxWaiting is 1/);
  await permit.release();
  await (await waiting).release();
});

test('with --pace a slot is not given again at once', async () => {
  const resource = temporal.resource();
  const flags = ['--pace', '10m', '--try'];
  const first = await run({ resource, flags }, 'echo', 'ran');
  assert.equal(first.code, 0, first.stderr);
  const second = await run({ resource, flags }, 'echo', 'ran');
  assert.equal(second.code, 75, second.stdout);
  await permitOf(resource).terminate();
});

test('interrupted while it waits, it leaves the line', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const cli = start({ resource }, 'echo', 'ran');
  await untilWaiting(temporal.client, resource, 1);
  cli.signal('SIGINT');
  assert.equal(await cli.exit, 130);
  assert.equal(cli.stdout, '');
  await untilWaiting(temporal.client, resource, 0);
  await permit.release();
});

test('signals are forwarded, and the command decides', async () => {
  const resource = temporal.resource();
  const cli = start({ resource }, 'sh', '-c', 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done');
  await cli.says(/(ready)/);
  cli.signal('SIGTERM');
  assert.equal(await cli.exit, 3);
});

test('a grandchild does not survive', async () => {
  const resource = temporal.resource();
  const { code, stdout } = await run({ resource }, 'sh', '-c', 'sleep 1000 & echo "child $!"');
  assert.equal(code, 0);
  assert.equal(isAlive(Number(/child (\d+)/.exec(stdout)?.[1])), false);
});

test('revoked, the command is ended, and the exit code is not 0', async () => {
  const resource = temporal.resource();
  const cli = start({ resource }, 'sh', '-c', 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done');
  await cli.says(/(ready)/);
  await permitOf(resource).signal(REVOKE, { reason: 'node drain' });
  assert.equal(await cli.exit, 143);
  assert.match(cli.stderr, /an operator revoked it \(node drain\)/);
});

test('revoked, a command that heeds no TERM is gone soon, however long its lease: its slot may have its next holder', async () => {
  const resource = temporal.resource();
  const cli = start({ resource, flags: ['--lease', '10m'] }, 'sh', '-c', STUBBORN);
  await cli.says(/(ready)/);
  await permitOf(resource).signal(REVOKE);
  // Otherwise it is gone when the lease ends.
  const gone = Promise.race([cli.exit, delay(60_000, 'still there', { ref: false })]);
  assert.equal(await gone, 137);
});

test('revoked where it could not hear of it, the exit code is not 0 although the command has ended well', async () => {
  const resource = temporal.resource();
  const proxy = await proxied();
  const { command, open } = gated('echo over');
  const cli = start({ resource, address: proxy.address, flags: ['--lease', '5m'] }, ...command);
  await cli.says(/(ready)/);
  proxy.cut('silent');
  await permitOf(resource).signal(REVOKE, { reason: 'node drain' });
  await permitOf(resource).result();
  open();
  await cli.says(/(over)/);
  await delay(1_000); // the release waits for the connection
  proxy.mend();
  assert.equal(await cli.exit, 143, cli.stderr);
  assert.match(cli.stderr, /an operator revoked it \(node drain\)/);
});

test('a guard that was killed is missed', async () => {
  const { command, open } = gated('true');
  const cli = start({ resource: temporal.resource() }, ...command);
  await cli.says(/(ready)/);
  process.kill(childOf(cli.pid, 'guard-process'), 'SIGKILL');
  await cli.says(/(no guard watches over the command: it ended with SIGKILL)/);
  open();
  assert.equal(await cli.exit, 0);
});

test('a reader that is slow gets all that is said', async () => {
  const script = '"$@" 2>&1 | (sleep 2; wc -c)';
  const words = [...CliProcess.command, 'ls', `--${'x'.repeat(120_000)}`];
  const { stdout } = spawnSync('sh', ['-c', script, 'sh', ...words], { encoding: 'utf8' });
  assert.ok(Number(stdout) > 120_000, stdout);
});

test('a signal ends the wait for a server that does not answer the release', async () => {
  const resource = temporal.resource();
  const proxy = await proxied();
  const { command, open } = gated('exit 3');
  const cli = start({ resource, address: proxy.address, flags: ['--lease', '10m'] }, ...command);
  await cli.says(/(ready)/);
  proxy.cut('silent');
  open();
  // One that comes before the command has ended is for the command.
  const asking = setInterval(() => cli.signal('SIGTERM'), 500);
  clean.push(() => clearInterval(asking));
  assert.equal(await cli.exit, 3, 'the exit code is still the one of the command');
  assert.match(cli.stderr, /slot "0" of ".*" is not free yet: a signal has ended the wait/);
  await permitOf(resource).terminate();
});

test('stopped for less than its lease, it goes on', async () => {
  const { command, open } = gated('echo done');
  const cli = start({ resource: temporal.resource(), flags: ['--lease', '30s'] }, ...command);
  await cli.says(/(ready)/);
  cli.signal('SIGSTOP');
  await delay(1_000); // its guard misses an order or two
  cli.signal('SIGCONT');
  open();
  assert.equal(await cli.exit, 0);
  assert.match(cli.stdout, /done/);
});

test('what stands where the command should is not taken for flags: put -- before it', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const flags = ['run', resource, '--capacity', '1', '--try', '--address', temporal.env.address];
  for (const more of [['--capacity', '5'], ['--unknown']]) {
    const { code, stdout, stderr } = await host.run([...flags, 'echo', 'ran', ...more]);
    assert.deepEqual([code, stdout], [64, '']);
    assert.match(stderr, /put -- before the command/);
  }
  const guarded = await run({ resource, flags: ['--try'] }, 'echo', 'ran', '--capacity', '5');
  assert.equal(guarded.code, 75);
  await permit.release();
  const free = await run({ resource, flags: ['--try'] }, 'echo', 'ran', '--capacity', '5', '--', '-x');
  assert.deepEqual([free.code, free.stdout], [0, 'ran --capacity 5 -- -x\n']);
});

test('whoever waits is told after a while what for', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const first = pool(resource).acquire();
  await untilWaiting(temporal.client, resource, 1);
  const cli = start({ resource }, 'true');
  const told = await cli.says(/temporal-semaphore: (waiting for .*)\n/);
  assert.equal(told, `waiting for a permit of "${resource}": 1 of 1 held, 1 ahead`);
  await permit.release();
  await (await first).release();
  assert.equal(await cli.exit, 0);
});

test('the command gets no key of the live page', async () => {
  const { code, stdout } = await run(
    { resource: temporal.resource() },
    'sh',
    '-c',
    'echo "[$TEMPORAL_SEMAPHORE_TOKEN]"',
  );
  assert.deepEqual([code, stdout], [0, '[]\n']);
});

test("a release that the server refuses does not cost the command's exit code", async () => {
  const proxy = await RefusingProxy.to(temporal.env.address, 'SignalWorkflowExecution');
  clean.push(() => proxy.close());
  const resource = temporal.resource();
  const { code, stderr } = await run(
    { resource, address: proxy.address, flags: ['--lease', '3s'] },
    'sh',
    '-c',
    'exit 7',
  );
  assert.equal(code, 7, stderr);
  assert.match(
    stderr,
    new RegExp(`^temporal-semaphore: slot "0" of "${resource}" is not free yet: .*PERMISSION_DENIED`),
  );
  await (await pool(resource).acquire()).release(); // its lease has ended it
});

test('wrong usage exits 64, no server 69, and no secret is told', async () => {
  const secret = 'the-secret-key';
  const usage = await run({ resource: 'pool', flags: ['--lease', 'soon', '--api-key', secret] }, 'true');
  const server = await run({ resource: 'pool', address: '127.0.0.1:1', flags: ['--api-key', secret] }, 'true');
  assert.deepEqual([usage.code, server.code], [64, 69]);
  assert.match(usage.stderr, /--lease .* Expected a duration/);
  assert.ok(!(usage.stderr + usage.stdout + server.stderr + server.stdout).includes(secret));
});

test('a permit worker runs the permits, and ends cleanly by SIGTERM', async () => {
  const taskQueue = `permits-${randomUUID()}`;
  const worker = new CliProcess(['worker', '--task-queue', taskQueue, '--address', temporal.env.address]);
  clean.push(() => worker.signal('SIGKILL'));
  await worker.says(/(permits run on task queue)/);
  const { code, stderr } = await run({ resource: temporal.resource(), taskQueue }, 'true');
  assert.equal(code, 0, stderr);
  worker.signal('SIGTERM');
  assert.equal(await worker.exit, 0);
});
