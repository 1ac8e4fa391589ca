import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SemaphoreClient } from '../../src/client';
import { REVOKE } from '../../src/shared/protocol';
import { endWithTests } from '../support/children';
import { CliProcess } from '../support/cli-process';
import { childOf } from '../support/processes';
import { useRunCommand } from '../support/run-command';
import { eventually, untilWaiting, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });
const { run, start, semaphore, permitOf, proxied, gated, clean } = useRunCommand(temporal);

/** Heeds no TERM. */
const STUBBORN = 'trap "" TERM; echo ready; while :; do sleep 0.1; done';

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
  await cli.says(/(the command runs without its guard process, which ended with SIGKILL)/);
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

test('whoever waits is told after a while what for', async () => {
  const resource = temporal.resource();
  const permit = await semaphore(resource).acquire();
  const first = semaphore(resource).acquire();
  await untilWaiting(temporal.client, resource, 1);
  const cli = start({ resource }, 'true');
  const told = await cli.says(/temporal-semaphore: (waiting for .*)\n/);
  assert.equal(
    told,
    `waiting for a permit of "${resource}": 1 of 1 held, 1 ahead (namespace "default" at ${temporal.env.address})`,
  );
  await permit.release();
  await (await first).release();
  assert.equal(await cli.exit, 0);
});

test('whoever waits is told that another caller has another capacity', async () => {
  const { client, taskQueue } = temporal;
  const resource = temporal.resource();
  const two = new SemaphoreClient(client, resource, { capacity: 2, taskQueue });
  const permits = [await two.acquire(), await two.acquire()];
  const cli = start({ resource }, 'true');
  const told = await cli.says(/temporal-semaphore: (waiting for .*)\n/);
  assert.match(told, /; its callers disagree on the slots: (2 \(one, .*, 1|1 \(one, .*, 2) \(one, /);
  for (const permit of permits) await permit.release();
  assert.equal(await cli.exit, 0);
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
  assert.ok(worker.stderr.includes(`task queue "${taskQueue}" of namespace "default" at ${temporal.env.address}.`));
  assert.doesNotMatch(worker.stderr, /WARN/);
});

test('a daemon that a command has left behind may run for the same resource', {
  skip: process.platform !== 'linux',
}, async () => {
  const resource = temporal.resource();
  const inner = `${CliProcess.command.join(' ')} run ${resource} --capacity 1 --address ${temporal.env.address} --task-queue ${temporal.taskQueue}`;
  const daemon = `setsid sh -c "${inner} -- echo served; echo exit \\$?" & sleep 0.2`;
  const outer = start({ resource }, 'sh', '-c', daemon);
  assert.equal(await outer.exit, 0); // once all that writes there has ended
  assert.match(outer.stdout, /^served\nexit 0\n$/m);
});

for (const [what, words] of [
  ['in a shell that tells what it starts', ['bash', '-c', 'nohup "$@" & wait', 'bash']],
  ['on a terminal', ['sh', '-c', 'exec "$@" 0>/dev/null', 'sh']], // what `nohup` makes of the input there
] as const) {
  const skip = process.platform !== 'linux';
  test(`under nohup a hang-up ends neither the wait nor the command: ${what}`, { skip }, async () => {
    const resource = temporal.resource();
    const permit = await semaphore(resource).acquire();
    const { command, open } = gated('echo done');
    const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue];
    const [file, ...rest] = [
      ...words,
      ...CliProcess.command,
      'run',
      resource,
      '--capacity',
      '1',
      ...to,
      '--',
      ...command,
    ];
    const shell = endWithTests(spawn(file, rest, { stdio: ['ignore', 'pipe', 'ignore'] }));
    let said = '';
    shell.stdout.on('data', (text) => {
      said += text;
    });
    await untilWaiting(temporal.client, resource, 1);
    const pid = file === 'bash' ? childOf(shell.pid, resource) : Number(shell.pid);
    process.kill(pid, 'SIGHUP');
    await permit.release();
    await eventually(async () => assert.match(said, /ready/));
    process.kill(pid, 'SIGHUP');
    open();
    assert.deepEqual(await once(shell, 'close'), [0, null]);
    assert.match(said, /^ready\ndone\n$/);
  });
}

test('Ctrl-Z stops the command too, and fg has both go on', { skip: process.platform !== 'linux' }, async () => {
  const resource = temporal.resource();
  const cli = start({ resource }, 'sh', '-c', 'while :; do echo tick; sleep 0.1; done');
  await cli.says(/(tick)/);
  cli.signal('SIGTSTP');
  await eventually(async () => {
    const state = /^State:\t(.)/m.exec(readFileSync(`/proc/${cli.pid}/status`, 'utf8'))?.[1];
    assert.equal(state, 'T');
    // A shell that is stopped while it starts a process does not show it in its own state, so it is told by what it says.
    const said = cli.stdout;
    await delay(500);
    assert.equal(cli.stdout, said);
  });
  assert.match(
    cli.stderr,
    /stopped, and the command with it\. The lease keeps running: it ends in \d+\.\d s, and the command is killed before then/,
  );
  const ticks = cli.stdout.length;
  cli.signal('SIGCONT');
  await eventually(async () => assert.ok(cli.stdout.length > ticks));
  cli.signal('SIGTERM');
  assert.equal(await cli.exit, 143);
});

test('a terminal that has another size is told to the command, and ends no wait', async () => {
  const resource = temporal.resource();
  const held = await semaphore(resource).acquire();
  const cli = start(
    { resource },
    'sh',
    '-c',
    'trap "echo resized; exit 3" WINCH; echo ready; while :; do sleep 0.1; done',
  );
  await untilWaiting(temporal.client, resource, 1);
  cli.signal('SIGWINCH');
  await held.release();
  await cli.says(/(ready)/);
  cli.signal('SIGWINCH');
  await cli.says(/(resized)/);
  assert.equal(await cli.exit, 3);
});

test('a command that is stopped for longer than the lease is told of the loss before its lease ends', async () => {
  const resource = temporal.resource();
  const told = 'trap "echo told; exit 3" TERM; echo ready; while :; do sleep 0.1; done';
  const cli = start({ resource, flags: ['--lease', '10s'] }, 'sh', '-c', told);
  await cli.says(/(ready)/);
  cli.signal('SIGTSTP');
  await cli.says(/(told)/);
  assert.equal((await permitOf(resource).describe()).status.name, 'RUNNING');
  assert.equal(await permitOf(resource).result(), 'lease-expired');
  cli.signal('SIGCONT');
  assert.equal(await cli.exit, 3);
  assert.match(cli.stderr, /the permit .* was lost|lost/);
});
