import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import { SemaphoreClient } from '../../src/client';
import { pollersOf } from '../../src/client/server/pollers';
import { permitId } from '../../src/shared/permit-id';
import { CliProcess } from '../support/cli-process';
import { until, untilWaiting, useTemporal } from '../support/temporal';

// What the command line does where it does not reach the server, which takes as long as a lease, or as gRPC waits.

const temporal = useTemporal({ shared: true });

const clean: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

/** Heeds no TERM, and says ten times a second that it lives. */
const STUBBORN = 'trap "" TERM; while :; do echo alive $(date +%s%3N); sleep 0.1; done';

/** The command gets KILL 0.6 s before its end. */
const LEASE = '20s';

interface Run {
  resource: string;
  address?: string;
  flags: string[];
}

function run({ resource, address = temporal.env.address, flags }: Run, ...command: string[]): CliProcess {
  const to = ['--address', address, '--task-queue', temporal.taskQueue];
  const cli = new CliProcess(['run', resource, '--capacity', '1', ...flags, ...to, '--', ...command]);
  clean.push(() => cli.signal('SIGKILL'));
  return cli;
}

async function start(address?: string) {
  const resource = temporal.resource();
  const cli = run({ resource, address, flags: ['--lease', LEASE] }, 'sh', '-c', STUBBORN);
  await cli.says(/(alive)/);
  return { cli, resource };
}

function pool(resource: string): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
}

async function proxied(): Promise<TcpProxy> {
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  return proxy;
}

/** Waits for the end of the permit, and takes the slot. @returns what its command has said */
async function assertGoneInTime({ cli, resource }: { cli: CliProcess; resource: string }): Promise<string> {
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
  assert.equal(await permit.result(), 'lease-expired');
  const { closeTime } = await permit.describe();
  await (await pool(resource).acquire()).release();
  const said = cli.stdout;
  const aliveMs = Number([...said.matchAll(/alive (\d+)/g)].at(-1)?.[1]);
  assert.ok(closeTime && aliveMs < closeTime.getTime(), `alive at ${aliveMs}, after ${closeTime?.getTime()}`);
  return said;
}

test('cut off, killed by kill -9 or stopped: the command is gone before the lease ends, even if it heeds no TERM', async () => {
  const proxy = await proxied();
  const [cut, killed, stopped] = await Promise.all([start(proxy.address), start(), start()]);
  proxy.cut('reset');
  killed.cli.signal('SIGKILL');
  stopped.cli.signal('SIGSTOP');
  const [, , said] = await Promise.all([cut, killed, stopped].map(assertGoneInTime));

  assert.equal(await cut.cli.exit, 137);
  assert.match(cut.cli.stderr, /its lease ended before it was renewed/);
  assert.equal(await killed.cli.exit, null, 'its output is closed: the command is gone for good');
  await delay(500);
  assert.equal(stopped.cli.stdout, said, 'the command is gone for good');
  stopped.cli.signal('SIGCONT');
  assert.equal(await stopped.cli.exit, 137);
  assert.match(stopped.cli.stderr, /was lost/);
});

test('where the server goes away while it waits, --timeout exits 69: nobody knows whether a slot is free', async () => {
  const resource = temporal.resource();
  const permit = await pool(resource).acquire();
  const proxy = await proxied();
  const cli = run({ resource, address: proxy.address, flags: ['--timeout', '6s'] }, 'echo', 'ran');
  await untilWaiting(temporal.client, resource, 1);
  proxy.cut('reset');
  assert.equal(await cli.exit, 69, cli.stderr);
  assert.equal(cli.stdout, '');
  assert.match(cli.stderr, /could not be reached/);
  await permit.release();
});

test('what listens and says nothing is named, by the worker too', async (t) => {
  const sockets = createServer((socket) => socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  sockets.listen(0, '127.0.0.1');
  await once(sockets, 'listening');
  t.after(() => sockets.close());
  const { port } = sockets.address() as { port: number };
  const asked = ['ls', 'worker'].map((name) => new CliProcess([name, '--address', `127.0.0.1:${port}`]));
  for (const cli of asked) {
    assert.equal(await cli.exit, 69);
    assert.match(cli.stderr, new RegExp(`at 127\\.0\\.0\\.1:${port}: it does not answer as a Temporal server does`));
    assert.doesNotMatch(cli.stderr, /tonic|Transport/);
  }
});

test('a worker whose tasks or server do not answer ends after a signal, and says so', async () => {
  const [resource, taskQueue, proxy] = [temporal.resource(), `permits-${randomUUID()}`, await proxied()];
  const started = (flags: string[]) => {
    const cli = new CliProcess(['worker', ...flags]);
    clean.push(() => cli.signal('SIGKILL'));
    return cli;
  };
  const stuckConverter = require.resolve('../support/stuck-converter');
  const to = ['--address', temporal.env.address, '--task-queue', taskQueue];
  const stuck = started([...to, '--data-converter', stuckConverter]);
  const cutQueue = `permits-${randomUUID()}`;
  const cut = started(['--address', proxy.address, '--task-queue', cutQueue]);
  await Promise.all([stuck, cut].map(async (cli) => await cli.says(/(permits run on task queue)/)));
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue });
  const permit = await semaphore.acquire();
  // Only the stuck worker polls there.
  await until(async () => {
    const { raw } = await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).describe();
    return raw.pendingWorkflowTask?.startedTime != null;
  });
  await until(async () => (await pollersOf(temporal.client, cutQueue)).length > 0);
  proxy.cut('silent');
  for (const cli of [stuck, cut]) cli.signal('SIGTERM');
  for (const cli of [stuck, cut]) {
    assert.equal(
      await cli.says(/(has not ended within \d+ s after SIGTERM)/),
      'has not ended within 25 s after SIGTERM',
    );
    assert.equal(await cli.exit, 143);
  }
  await temporal.worker({ taskQueue });
  await permit.release();
});
