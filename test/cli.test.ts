import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { TcpProxy } from '../scripts/support/tcp-proxy';
import { SemaphoreClient } from '../src/client';
import { permitId } from '../src/shared/permit-id';
import { REVOKE } from '../src/shared/protocol';
import { CliProcess } from './support/cli-process';
import { RefusingProxy } from './support/refusing-proxy';
import { eventually, untilWaiting, useTemporal } from './support/temporal';

const temporal = useTemporal({ shared: true });

/** Heeds no TERM, and says every 50 ms that it lives. */
const STUBBORN = 'trap "" TERM; while :; do echo alive $(date +%s%3N); sleep 0.05; done';

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

function run({ resource, flags = [], address, taskQueue }: RunOptions, ...command: string[]): CliProcess {
  const to = ['--address', address ?? temporal.env.address, '--task-queue', taskQueue ?? temporal.taskQueue];
  const started = new CliProcess(['run', resource, '--capacity', '1', ...to, ...flags, '--', ...command]);
  clean.push(() => started.signal('SIGKILL'));
  return started;
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

/** When it last said that it lives, and when its permit closed. */
async function lastWords(cli: CliProcess, resource: string): Promise<{ aliveMs: number; closedMs: number }> {
  const aliveMs = Number([...cli.stdout.matchAll(/alive (\d+)/g)].at(-1)?.[1]);
  const { closeTime } = await eventually(async () => {
    const description = await permitOf(resource).describe();
    assert.ok(description.closeTime);
    return description;
  });
  return { aliveMs, closedMs: closeTime?.getTime() ?? 0 };
}

test('with --also the command runs under permits of several resources, all or none', async () => {
  const [resource, licences] = [temporal.resource(), temporal.resource('licences')];
  const flags = ['--also', `${licences}=a,b`];
  const cli = run({ resource, flags }, 'sh', '-c', 'echo "$PERMITS $PERMIT_RESOURCE"');
  assert.equal(await cli.exit, 0, cli.stderr);
  const [, json = '', first] = cli.stdout.match(/^(\[.*\]) (.*)\n$/) ?? [];
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
  const late = run({ resource, flags: [...flags, '--timeout', '1s'] }, 'true');
  assert.equal(await late.exit, 75);
  assert.match(late.stderr, new RegExp(`No permit of "${resource}" came free`));
  await held.release();
  assert.equal(await run({ resource, flags: ['--also', 'licences'] }, 'true').exit, 64);
  assert.equal(await run({ resource, flags: ['--also', `${resource}=2`] }, 'true').exit, 64);
});

test('the command knows its permit, and its exit code is ours', async () => {
  const resource = temporal.resource();
  const show = 'echo "$PERMIT_RESOURCE $PERMIT_SLOT $PERMIT_WORKFLOW_ID $PERMIT_RUN_ID $PERMIT_FENCING_TOKEN"; exit 7';
  const cli = run({ resource, flags: ['--purpose', 'proof'] }, 'sh', '-c', show);
  assert.equal(await cli.exit, 7);
  const { runId, status, memo } = await permitOf(resource).describe();
  assert.equal(cli.stdout, `${resource} 0 permit:${resource}:0 ${runId} ${resource}/0/${runId}\n`);
  assert.equal(status.name, 'COMPLETED');
  assert.equal(memo?.purpose, 'proof');
  assert.equal(cli.stderr, '');
});

test('what can not be executed exits 126, and says why', async () => {
  const path = run({ resource: temporal.resource() }, './package.json/job');
  assert.equal(await path.exit, 126, path.stderr);
  assert.match(path.stderr, /package.json.job: .*ENOTDIR/);
});

test("a signal's exit code is 128 + n, a missing command's 127", async () => {
  const killed = run({ resource: temporal.resource() }, 'sh', '-c', 'kill -KILL $$');
  const missing = run({ resource: temporal.resource() }, 'there-is-no-such-command');
  assert.deepEqual(await Promise.all([killed.exit, missing.exit]), [137, 127]);
  assert.match(missing.stderr, /there-is-no-such-command: command not found/);
});

test('full: --try exits 75 at once, --timeout when late, and neither runs the command', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const tried = run({ resource, flags: ['--try'] }, 'echo', 'ran');
  const late = run({ resource, flags: ['--timeout', '1s'] }, 'echo', 'ran');
  assert.deepEqual(await Promise.all([tried.exit, late.exit]), [75, 75]);
  assert.equal(tried.stdout + late.stdout, '');
  assert.match(late.stderr, /within 1000 ms: all slots are held/);
  assert.match(tried.stderr, /is free: all slots are held\. Try later/);
  assert.doesNotMatch(tried.stderr, /within/);

  const waiting = pool(resource).acquire();
  await untilWaiting(temporal.client, resource, 1);
  const bounded = run({ resource, flags: ['--max-waiting', '1'] }, 'echo', 'ran');
  assert.equal(await bounded.exit, 75);
  assert.match(bounded.stderr, /the line is full: maxWaiting is 1/);
  assert.equal(bounded.stdout, '');
  await permit.release();
  await (await waiting).release();
});

test('with --pace a slot is not given again at once', async () => {
  const resource = temporal.resource();
  const flags = ['--pace', '30s', '--try'];
  const first = run({ resource, flags }, 'echo', 'ran');
  assert.equal(await first.exit, 0, first.stderr);
  const second = run({ resource, flags }, 'echo', 'ran');
  assert.equal(await second.exit, 75, second.stdout);
  await permitOf(resource).terminate();
});

test('interrupted while it waits, it leaves the line', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const cli = run({ resource }, 'echo', 'ran');
  const queue = temporal.client.workflow.getHandle(`permit-queue:${resource}`);
  await eventually(async () => assert.equal((await queue.describe()).status.name, 'RUNNING'));
  cli.signal('SIGINT');
  assert.equal(await cli.exit, 130);
  assert.equal(cli.stdout, '');
  await permit.release();
});

test('signals are forwarded, and the command decides', async () => {
  const resource = temporal.resource();
  const cli = run({ resource }, 'sh', '-c', 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done');
  await cli.says(/(ready)/);
  cli.signal('SIGTERM');
  assert.equal(await cli.exit, 3);
});

test('a grandchild does not survive', async () => {
  const resource = temporal.resource();
  const cli = run({ resource }, 'sh', '-c', 'sleep 1000 & echo "child $!"');
  assert.equal(await cli.exit, 0);
  const pid = Number(await cli.says(/child (\d+)/));
  assert.equal(isAlive(pid), false);
});

test('revoked, the command is ended, and the exit code is not 0', async () => {
  const resource = temporal.resource();
  const cli = run({ resource }, 'sh', '-c', 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done');
  await cli.says(/(ready)/);
  await permitOf(resource).signal(REVOKE, { reason: 'node drain' });
  assert.equal(await cli.exit, 143);
  assert.match(cli.stderr, /an operator revoked it \(node drain\)/);
});

test('revoked, a command that heeds no TERM is gone soon, however long its lease: its slot may have its next holder', async () => {
  const resource = temporal.resource();
  const cli = run({ resource, flags: ['--lease', '10m'] }, 'sh', '-c', STUBBORN);
  await cli.says(/(alive)/);
  await permitOf(resource).signal(REVOKE);
  const gone = Promise.race([cli.exit, delay(20_000, 'still there', { ref: false })]);
  assert.equal(await gone, 137);
});

test('revoked where it could not hear of it, the exit code is not 0 although the command has ended well', async () => {
  const resource = temporal.resource();
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const cli = run({ resource, address: proxy.address, flags: ['--lease', '1m'] }, 'sh', '-c', 'echo ready; sleep 2');
  await cli.says(/(ready)/);
  proxy.cut('silent');
  await permitOf(resource).signal(REVOKE, { reason: 'node drain' });
  await permitOf(resource).result();
  await delay(3_000); // the command has ended, and the release waits for the connection
  proxy.mend();
  assert.equal(await cli.exit, 143, cli.stderr);
  assert.match(cli.stderr, /an operator revoked it \(node drain\)/);
});

test('a guard that was killed is missed', async () => {
  const cli = run({ resource: temporal.resource() }, 'sh', '-c', 'echo ready; sleep 3');
  await cli.says(/(ready)/);
  process.kill(childOf(cli.pid, 'guard-process'), 'SIGKILL');
  await cli.says(/(no guard watches over the command: it ended with SIGKILL)/);
  assert.equal(await cli.exit, 0);
});

test('where the server goes away while it waits, --timeout exits 69: nobody knows whether a slot is free', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const cli = run({ resource, address: proxy.address, flags: ['--timeout', '6s'] }, 'echo', 'ran');
  await cli.says(/(waiting for a permit)/);
  proxy.cut('reset');
  assert.equal(await cli.exit, 69, cli.stderr);
  assert.equal(cli.stdout, '');
  assert.match(cli.stderr, /could not be reached/);
  await permit.release();
});

test('a reader that is slow gets all that is said', async () => {
  const script = '"$@" 2>&1 | (sleep 2; wc -c)';
  const words = [...CliProcess.command, 'ls', `--${'x'.repeat(120_000)}`];
  const { stdout } = spawnSync('sh', ['-c', script, 'sh', ...words], { encoding: 'utf8' });
  assert.ok(Number(stdout) > 120_000, stdout);
});

test('cut off, the command is gone before the lease ends, even if it heeds no TERM', async () => {
  const resource = temporal.resource();
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const cli = run({ resource, address: proxy.address, flags: ['--lease', '5s'] }, 'sh', '-c', STUBBORN);
  await cli.says(/(alive)/);
  proxy.cut('reset');
  assert.equal(await cli.exit, 137);
  const { aliveMs, closedMs } = await lastWords(cli, resource);
  assert.ok(aliveMs < closedMs, `alive ${aliveMs - closedMs} ms after its permit closed`);
  assert.match(cli.stderr, /its lease ended before a renewal came/);
});

test('a signal ends the wait for a server that does not answer the release', async () => {
  const resource = temporal.resource();
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const cli = run(
    { resource, address: proxy.address, flags: ['--lease', '30s'] },
    'sh',
    '-c',
    'echo ready; sleep 2; exit 3',
  );
  await cli.says(/(ready)/);
  proxy.cut('silent');
  await delay(5_000);
  const sentMs = performance.now();
  cli.signal('SIGTERM');
  assert.equal(await cli.exit, 3, 'the exit code is still the one of the command');
  assert.ok(performance.now() - sentMs < 5_000, 'it has waited on');
  assert.match(cli.stderr, /slot "0" of ".*" is not free yet: a signal has ended the wait/);
  await permitOf(resource).terminate();
});

test('after kill -9 of the command line the command is gone before the lease ends', async () => {
  const resource = temporal.resource();
  const cli = run({ resource, flags: ['--lease', '5s'] }, 'sh', '-c', `echo "pid $$"; ${STUBBORN}`);
  const pid = Number(await cli.says(/pid (\d+)/));
  await delay(1_000);
  cli.signal('SIGKILL');
  assert.equal(await cli.exit, null);
  await eventually(async () => assert.equal(isAlive(pid), false));
  const { aliveMs, closedMs } = await lastWords(cli, resource);
  assert.ok(aliveMs < closedMs, `alive ${aliveMs - closedMs} ms after its permit closed`);
});

test('stopped, its command is gone before the lease ends; woken, it says that the permit is lost', async () => {
  const resource = temporal.resource();
  const cli = run({ resource, flags: ['--lease', '5s'] }, 'sh', '-c', STUBBORN);
  await cli.says(/(alive)/);
  await delay(1_000);
  cli.signal('SIGSTOP');
  const { aliveMs, closedMs } = await lastWords(cli, resource);
  assert.ok(aliveMs < closedMs, `alive ${aliveMs - closedMs} ms after its permit closed`);
  const next = run({ resource }, 'echo', 'next');
  assert.equal(await next.exit, 0);
  const { length } = cli.stdout;
  await delay(500);
  assert.equal(cli.stdout.length, length, 'the command is gone for good');
  cli.signal('SIGCONT');
  assert.equal(await cli.exit, 137);
  assert.match(cli.stderr, /was lost/);
});

test('stopped for less than its lease, it goes on', async () => {
  const resource = temporal.resource();
  const cli = run({ resource, flags: ['--lease', '10s'] }, 'sh', '-c', 'echo ready; sleep 6; echo done');
  await cli.says(/(ready)/);
  cli.signal('SIGSTOP');
  await delay(3_000);
  cli.signal('SIGCONT');
  assert.equal(await cli.exit, 0);
  assert.match(cli.stdout, /done/);
});

test('what stands where the command should is not taken for flags: put -- before it', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue];
  const [bare, flagged, guarded] = [
    new CliProcess(['run', resource, '--capacity', '1', '--try', ...to, 'echo', 'ran', '--capacity', '5']),
    new CliProcess(['run', resource, '--capacity', '1', '--try', ...to, 'echo', 'ran', '--unknown']),
    new CliProcess(['run', resource, '--capacity', '1', '--try', ...to, '--', 'echo', 'ran', '--capacity', '5']),
  ];
  assert.deepEqual(await Promise.all([bare.exit, flagged.exit, guarded.exit]), [64, 64, 75]);
  for (const { stdout, stderr } of [bare, flagged]) {
    assert.equal(stdout, '');
    assert.match(stderr, /put -- before the command/);
  }
  await permit.release();
  const free = run({ resource, flags: ['--try'] }, 'echo', 'ran', '--capacity', '5', '--', '-x');
  assert.equal(await free.exit, 0);
  assert.equal(free.stdout, 'ran --capacity 5 -- -x\n');
});

test('whoever waits is told after a while what for', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const [first, second] = [run({ resource }, 'true'), run({ resource }, 'true')];
  const told = await Promise.all([first, second].map((cli) => cli.says(/temporal-semaphore: (waiting for .*)\n/)));
  for (const line of told) assert.ok(line.startsWith(`waiting for a permit of "${resource}": 1 of 1 held, `), line);
  await permit.release();
  assert.deepEqual(await Promise.all([first.exit, second.exit]), [0, 0]);
});

test('the command gets no key of the live page', async () => {
  const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue];
  const command = ['--', 'sh', '-c', 'echo "[$TEMPORAL_SEMAPHORE_TOKEN]"'];
  const args = ['run', temporal.resource(), '--capacity', '1', ...to, ...command];
  const cli = new CliProcess(args, false, { TEMPORAL_SEMAPHORE_TOKEN: 'the-key-of-the-page' });
  assert.equal(await cli.exit, 0);
  assert.equal(cli.stdout, '[]\n');
});

test("a release that the server refuses does not cost the command's exit code", async () => {
  const proxy = await RefusingProxy.to(temporal.env.address, 'SignalWorkflowExecution');
  clean.push(() => proxy.close());
  const resource = temporal.resource();
  const cli = run({ resource, address: proxy.address, flags: ['--lease', '3s'] }, 'sh', '-c', 'exit 7');
  assert.equal(await cli.exit, 7, cli.stderr);
  assert.match(
    cli.stderr,
    new RegExp(`^temporal-semaphore: slot "0" of "${resource}" is not free yet: .*PERMISSION_DENIED`),
  );
  await (await pool(resource).acquire()).release(); // its lease has ended it
});

test('wrong usage exits 64, no server 69, and no secret is told', async () => {
  const secret = 'the-secret-key';
  const usage = run({ resource: 'pool', flags: ['--lease', 'soon', '--api-key', secret] }, 'true');
  const server = run({ resource: 'pool', address: '127.0.0.1:1', flags: ['--api-key', secret] }, 'true');
  assert.deepEqual(await Promise.all([usage.exit, server.exit]), [64, 69]);
  assert.match(usage.stderr, /--lease .* Expected a duration/);
  assert.ok(!(usage.stderr + usage.stdout + server.stderr + server.stdout).includes(secret));
});

test('a permit worker runs the permits, and ends cleanly by SIGTERM', async () => {
  const taskQueue = `permits-${randomUUID()}`;
  const worker = new CliProcess(['worker', '--task-queue', taskQueue, '--address', temporal.env.address]);
  clean.push(() => worker.signal('SIGKILL'));
  await worker.says(/(permits run on task queue)/);
  const cli = run({ resource: temporal.resource(), taskQueue }, 'true');
  assert.equal(await cli.exit, 0);
  worker.signal('SIGTERM');
  assert.equal(await worker.exit, 0);
});
