import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, type ConnectionOptions, type WorkflowClientInterceptor } from '@temporalio/client';
import { TcpProxy } from '../scripts/support/tcp-proxy';
import {
  type Permit,
  PermitLostError,
  PermitTimeoutError,
  SemaphoreClient,
  type SemaphoreClientOptions,
} from '../src/client';
import { Server } from '../src/client/server';
import { permitId } from '../src/shared/permit-id';
import { RELEASE } from '../src/shared/protocol';
import { OFFER_TIMEOUT_MS } from '../src/workflows/queue/queue-state';
import { ClientProcess } from './support/client-process';
import { untilWaiting, useTemporal } from './support/temporal';

const temporal = useTemporal({ shared: true });

/** How late a lease may end: the server's timers are up to 1 s late, and this machine is busy. */
const LATE_MS = 3_000;

const clean: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

function semaphoreOptions(options: Partial<SemaphoreClientOptions>): SemaphoreClientOptions {
  return { capacity: 1, taskQueue: temporal.taskQueue, ...options };
}

function semaphore(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  return new SemaphoreClient(temporal.client, resource, semaphoreOptions(options));
}

function startProcess(resource: string, options: Partial<SemaphoreClientOptions> = {}): ClientProcess {
  const started = new ClientProcess({ address: temporal.env.address, resource, semaphore: semaphoreOptions(options) });
  clean.push(() => started.kill());
  return started;
}

async function throughProxy(options: ConnectionOptions = {}): Promise<{ proxy: TcpProxy; client: Client }> {
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const connection = await Connection.connect({ ...options, address: proxy.address });
  clean.push(() => connection.close());
  return { proxy, client: new Client({ connection }) };
}

async function statusOf({ workflowId, runId }: Pick<Permit, 'workflowId' | 'runId'>): Promise<string> {
  return (await temporal.client.workflow.getHandle(workflowId, runId).describe()).status.name;
}

async function lossOf({ signal }: Permit): Promise<PermitLostError> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  assert.ok(signal.reason instanceof PermitLostError);
  return signal.reason;
}

test('kill -9 of a holder frees its slot within its lease', async () => {
  const resource = temporal.resource();
  const holder = startProcess(resource, { lease: '3s' });
  await holder.until('acquired');
  const waiting = semaphore(resource).acquire();
  await delay(1_000);
  await holder.kill();
  const killedMs = Date.now();
  const permit = await waiting;
  const tookMs = Date.now() - killedMs;
  assert.ok(tookMs < 3_000 + LATE_MS, `took ${tookMs} ms`);
  await permit.release();
});

test('kill -9 of a waiter costs the next one no more than the offer timeout', async () => {
  const resource = temporal.resource();
  const first = await semaphore(resource).acquire();
  const dead = startProcess(resource);
  await dead.until('waiting');
  await delay(2_000); // it stands first in line
  const waiting = semaphore(resource).acquire();
  await delay(500);
  await dead.kill();
  await first.release();
  const releasedMs = Date.now();
  const permit = await waiting;
  const tookMs = Date.now() - releasedMs;
  assert.ok(tookMs < OFFER_TIMEOUT_MS + LATE_MS, `took ${tookMs} ms`);
  await permit.release();
});

test('a holder that was stopped past its lease finds it lost before it works on, and leaves the next holder alone', async () => {
  const resource = temporal.resource();
  const holder = startProcess(resource, { lease: '2s' });
  const { runId } = await holder.until('acquired');
  await delay(500);
  holder.signal('SIGSTOP');
  const stoppedMs = Date.now();
  const next = await semaphore(resource).acquire();
  assert.ok(next.runId > (runId ?? ''), 'the next holder has the greater fencing token');
  const resumedMs = Date.now();
  holder.signal('SIGCONT');
  const lost = await holder.until('lost');
  assert.deepEqual([lost.how, lost.runId], ['lease-expired', runId]);
  assert.ok(lost.atMs >= resumedMs, 'it was stopped');
  const worked = holder.steps.filter(({ step, atMs }) => step === 'work' && atMs > stoppedMs + 100);
  assert.deepEqual(worked, [], 'no work after it was resumed');
  assert.equal((await holder.until('after')).renewal, 'PermitLostError');
  assert.equal(await statusOf(next), 'RUNNING');
  const { events } = await temporal.client.workflow.getHandle(next.workflowId, next.runId).fetchHistory();
  const signals = events?.flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName ?? []);
  assert.deepEqual(
    signals?.filter((name) => name !== 'renew' && name !== 'watch'),
    [],
    'no release came',
  );
  assert.equal(next.signal.aborted, false);
  await next.release();
});

test('an event loop that was blocked past the lease finds it lost, not renewed', async () => {
  const permit = await semaphore(temporal.resource(), { lease: '1s' }).acquire();
  const untilMs = performance.now() + 1_500;
  while (performance.now() < untilMs);
  const renewal = permit.renew();
  assert.equal(permit.signal.aborted, true);
  await assert.rejects(renewal, PermitLostError);
  await permit.release();
});

test('a connection cut for 5 seconds loses no permit', async () => {
  const { proxy, client } = await throughProxy();
  const options = semaphoreOptions({ lease: '15s', renewEvery: '2s' });
  const permit = await new SemaphoreClient(client, temporal.resource(), options).acquire();
  proxy.cut('reset');
  await delay(5_000);
  proxy.mend();
  await delay(12_000);
  assert.equal(permit.signal.aborted, false);
  assert.equal(await statusOf(permit), 'RUNNING', 'renewed after the cut: its first lease is over');
  await permit.release();
});

for (const how of ['reset', 'silent'] as const) {
  test(`a connection cut for longer than the lease loses the permit, told before the lease ends (${how})`, async () => {
    const resource = temporal.resource();
    // Without the SDK's own retries: one that sleeps when its connection is closed throws out of a timer.
    const { proxy, client } = await throughProxy({ interceptors: [] });
    const permit = await new SemaphoreClient(client, resource, semaphoreOptions({ lease: '4s' })).acquire();
    await delay(500);
    proxy.cut(how);
    const waiting = semaphore(resource).acquire();
    const loss = await lossOf(permit);
    assert.equal(await statusOf(permit), 'RUNNING', 'told in time');
    assert.deepEqual([loss.how, loss.resource, loss.slot, loss.runId], ['lease-expired', resource, '0', permit.runId]);
    assert.ok(loss.cause instanceof Error, 'it says why no renewal got through');
    const next = await waiting;
    await assert.rejects(permit.renew(), PermitLostError);
    await permit.release();
    proxy.mend();
    assert.equal(await statusOf(next), 'RUNNING');
    await next.release();
  });
}

test('a lost permit that nobody releases does not keep its process up, although the server can not be reached', async () => {
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const semaphore = semaphoreOptions({ lease: '2s' });
  const dropping = new ClientProcess({ address: proxy.address, resource: temporal.resource(), semaphore, drops: true });
  clean.push(() => dropping.kill());
  await dropping.until('acquired');
  proxy.cut('reset');
  await dropping.until('lost');
  assert.equal(await Promise.race([dropping.exit, delay(20_000, 'still up', { ref: false })]), 0);
});

/** A client whose calls to start a permit go as the test says. */
function withStarts(tamper: (start: () => Promise<string>) => Promise<string>): Client {
  const { connection } = temporal.client;
  return new Client({
    connection,
    interceptors: { workflow: [{ start: (input, next) => tamper(() => next(input)) }] },
  });
}

/** What the SDK throws for a failed call. */
function grpcError(code: number, details: string): Error {
  return Object.assign(new Error(`${code} ${details}`), { code, details, metadata: {} });
}

test('a claim whose answer got lost is known to be ours', async () => {
  const resource = temporal.resource();
  let starts = 0;
  const client = withStarts(async (start) => {
    const runId = await start();
    if (++starts === 1) throw grpcError(14, 'UNAVAILABLE');
    return runId;
  });
  const permit = await new SemaphoreClient(client, resource, semaphoreOptions({})).tryAcquire();
  const { runId } = await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).describe();
  assert.equal(permit?.runId, runId);
  await permit?.release();
});

test('overload and time-outs are waited out, and never taken for a held slot', async () => {
  const failures = [
    grpcError(8, 'RESOURCE_EXHAUSTED'),
    grpcError(14, 'UNAVAILABLE'),
    grpcError(4, 'DEADLINE_EXCEEDED'),
  ];
  const client = withStarts(async (start) => {
    const failure = failures.shift();
    if (failure) throw failure;
    return await start();
  });
  const permit = await new SemaphoreClient(client, temporal.resource(), semaphoreOptions({})).tryAcquire();
  assert.ok(permit);
  assert.deepEqual(failures, []);
  await permit.release();
});

test('an acquire that never reaches the server times out with the cause', async () => {
  const client = withStarts(async () => {
    throw grpcError(14, 'UNAVAILABLE');
  });
  const pool = new SemaphoreClient(client, temporal.resource(), semaphoreOptions({}));
  await assert.rejects(pool.acquire({ timeout: '1s' }), (error) => {
    assert.ok(error instanceof Error && error.name === 'PermitTimeoutError');
    assert.match(error.message, /could not be reached/);
    assert.ok(error.cause);
    return true;
  });
});

test('a waiter that has lost the server times out with the cause, and nobody works inline for it', async () => {
  const resource = temporal.resource();
  const { proxy, client } = await throughProxy({ interceptors: [] });
  const permit = await semaphore(resource).acquire();
  let hasRun = false;
  const work = async () => {
    hasRun = true;
  };
  const pool = new SemaphoreClient(client, resource, semaphoreOptions({}));
  const working = pool.withPermit(work, { onSaturated: 'inline', timeout: '4s' });
  const rejected = assert.rejects(working, (error) => {
    assert.ok(error instanceof PermitTimeoutError && error.cause !== undefined, String(error));
    assert.match(error.message, /could not be reached/);
    return true;
  });
  await untilWaiting(temporal.client, resource, 1);
  proxy.cut('reset');
  await rejected;
  assert.equal(hasRun, false);
  await permit.release();
});

test('cut off as maxHold comes, the permit is lost before the server ends it, whatever was renewed', async () => {
  const { proxy, client } = await throughProxy({ interceptors: [] });
  const options = semaphoreOptions({ lease: '4s', maxHold: '8s' });
  const permit = await new SemaphoreClient(client, temporal.resource(), options).acquire();
  await delay(6_500);
  assert.ok(permit.deadline.getTime() - Date.now() < 1_600, 'it tells no later end than the server has');
  proxy.cut('silent');
  const loss = await lossOf(permit);
  assert.equal(loss.how, 'timed-out');
  assert.equal(await statusOf(permit), 'RUNNING', 'told in time');
});

test('a holder learns at once that it was revoked, although the server is slow to say why', async () => {
  const describe: WorkflowClientInterceptor['describe'] = async (input, next) => {
    await delay(6_000);
    return await next(input);
  };
  const { connection } = temporal.client;
  const client = new Client({ connection, interceptors: { workflow: [{ describe }] } });
  const resource = temporal.resource();
  const permit = await new SemaphoreClient(client, resource, semaphoreOptions({ renewEvery: false })).acquire();
  const lost = lossOf(permit);
  await semaphore(resource).revoke('0', { reason: 'node drain' });
  const sinceMs = performance.now();
  assert.equal((await lost).how, 'revoked');
  assert.ok(performance.now() - sinceMs < 3_000);
});

test('an abort ends the wait for a call whose connection does not heed it', async () => {
  const [stop, deaf] = [new AbortController(), new Promise<never>(() => {})];
  const called = new Server(temporal.client).call(() => deaf, 60_000, stop.signal);
  stop.abort(new Error('no more'));
  await assert.rejects(Promise.race([called, delay(5_000)]), /no more/);
});

test('a slow start whose run has ended meanwhile is not reported, but made again', async () => {
  const resource = temporal.resource();
  const runs: string[] = [];
  const client = withStarts(async (start) => {
    runs.push(await start());
    if (runs.length === 1) {
      await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).terminate();
      await delay(1_200);
    }
    return runs.at(-1) ?? '';
  });
  const permit = await new SemaphoreClient(client, resource, semaphoreOptions({})).acquire();
  assert.equal(runs.length, 2);
  assert.equal(permit.runId, runs[1]);
  await permit.release();
});

test('a waiter whose cancellation the server refuses is given up all the same', async () => {
  const cancel = async () => Promise.reject(grpcError(7, 'PERMISSION_DENIED'));
  const { connection } = temporal.client;
  const client = new Client({ connection, interceptors: { workflow: [{ cancel }] } });
  const resource = temporal.resource();
  const permit = await semaphore(resource).acquire();
  const enough = new AbortController();
  const waiting = new SemaphoreClient(client, resource, semaphoreOptions({})).acquire({ signal: enough.signal });
  await untilWaiting(temporal.client, resource, 1);
  enough.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await permit.release();
});

test('a release that the server refuses does not cost the result, nor the error, of the function', async () => {
  const { connection } = temporal.client;
  const refused = grpcError(7, 'PERMISSION_DENIED');
  const client = new Client({
    connection,
    interceptors: {
      workflow: [
        {
          signal: async (input, next) => {
            if (input.signalName === RELEASE) throw refused;
            await next(input);
          },
        },
      ],
    },
  });
  const warnings: Error[] = [];
  const listen = (warning: Error) => warnings.push(warning);
  process.on('warning', listen);
  clean.push(async () => {
    process.off('warning', listen);
  });
  const resource = temporal.resource();
  const pool = new SemaphoreClient(client, resource, semaphoreOptions({ lease: '2s' }));
  assert.equal(await pool.withPermit(async () => 'the result'), 'the result');
  const failing = async () => {
    throw new Error('its own error');
  };
  await assert.rejects(pool.withPermit(failing), /its own error/); // it had the slot when the lease had ended
  await delay(0);
  assert.deepEqual(
    warnings.map(({ name }) => name),
    ['PermitReleaseWarning', 'PermitReleaseWarning'],
  );
  assert.match(warnings[0]?.message ?? '', new RegExp(`${resource}.*could not be released`));
});
