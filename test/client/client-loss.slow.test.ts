import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, type ConnectionOptions, type WorkflowClientInterceptor } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import {
  acquireAll,
  type Permit,
  PermitLostError,
  PermitTimeoutError,
  SemaphoreClient,
  type SemaphoreClientOptions,
  withPermits,
} from '../../src/client';
import { messageOf } from '../../src/client/server/errors';
import { Server } from '../../src/client/server/server';
import { permitId } from '../../src/shared/permit-id';
import { RELEASE, RENEW, REVOKE } from '../../src/shared/protocol';
import { withHistories } from '../support/changed-history';
import { ClientProcess } from '../support/client-process';
import { assertQueueTold } from '../support/holders';
import { operatorOf } from '../support/operators';
import { signalsOf } from '../support/permit-signals';
import { until, untilWaiting, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });

const clean: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

function optionsOf(options: Partial<SemaphoreClientOptions>): SemaphoreClientOptions {
  return { capacity: 1, taskQueue: temporal.taskQueue, ...options };
}

function clientOf(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  return new SemaphoreClient(temporal.client, resource, optionsOf(options));
}

function startProcess(resource: string, options: Partial<SemaphoreClientOptions> = {}): ClientProcess {
  const started = new ClientProcess({ address: temporal.env.address, resource, semaphore: optionsOf(options) });
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

function describe({ workflowId, runId }: Permit) {
  return temporal.client.workflow.getHandle(workflowId, runId).describe();
}

async function statusOf(permit: Permit): Promise<string> {
  return (await describe(permit)).status.name;
}

async function lossOf({ signal }: Permit): Promise<PermitLostError> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  assert.ok(signal.reason instanceof PermitLostError);
  return signal.reason;
}

/**
 * Whether it hears of its loss a twentieth of the lease before the end at the latest, which is half of its notice. Of two timers
 * the one that is due first fires first, however late a busy machine is.
 */
async function isToldInTime(permit: Permit): Promise<boolean> {
  const leftMs = permit.deadline.getTime() - Date.now() - permit.ref().leaseMs / 20;
  return await Promise.race([lossOf(permit).then(() => true), delay(leftMs, false)]);
}

test('kill -9 of a holder frees its slot when its lease is over', async () => {
  const resource = temporal.resource();
  const holder = startProcess(resource, { lease: '4s' });
  const { runId } = await holder.until('acquired');
  const waiting = clientOf(resource, { recheckAfter: '1 hour' }).acquire();
  await untilWaiting(temporal.client, resource, 1);
  await holder.kill();
  const next = await waiting;
  const ended = temporal.client.workflow.getHandle(next.workflowId, runId);
  assert.equal(await ended.result(), 'lease-expired');
  await assertQueueTold(temporal.client, resource, runId ?? '');
  await next.release();
});

test('kill -9 of a waiter costs the next one a turn, not its patience', async () => {
  const resource = temporal.resource();
  const first = await clientOf(resource).acquire();
  const dead = startProcess(resource);
  await untilWaiting(temporal.client, resource, 1);
  const waiting = clientOf(resource, { recheckAfter: '1 hour' }).acquire();
  await untilWaiting(temporal.client, resource, 2);
  await dead.kill();
  await first.release();
  await (await waiting).release();
});

test('a holder that was stopped past its lease finds it lost before it works on, and leaves the next holder alone', async () => {
  const resource = temporal.resource();
  const holder = startProcess(resource, { lease: '4s' });
  const { runId } = await holder.until('acquired');
  holder.signal('SIGSTOP');
  const next = await clientOf(resource).acquire();
  assert.ok(next.runId > (runId ?? ''), 'the next holder has the greater fencing token');
  const resumedMs = Date.now();
  holder.signal('SIGCONT');
  const lost = await holder.until('lost');
  assert.deepEqual([lost.how, lost.runId], ['lease-expired', runId]);
  assert.ok(lost.atMs >= resumedMs, 'it was stopped');
  const worked = holder.steps.filter(({ step, atMs }) => step === 'work' && atMs >= resumedMs);
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

for (const [what, goOn] of [
  ['not renewed', async (permit: Permit) => void (await permit.renew())],
  ['and passes no checkpoint', (permit: Permit) => permit.checkpoint()],
  ['and does not line up again', (permit: Permit) => permit.yield(async () => undefined)],
] as const) {
  test(`an event loop that was blocked past the lease finds it lost, ${what}`, async () => {
    const permit = await clientOf(temporal.resource(), { lease: '1s' }).acquire();
    const untilMs = performance.now() + 1_500;
    while (performance.now() < untilMs);
    const gone = goOn(permit).then((next) => next?.release());
    assert.equal(permit.signal.aborted, true);
    await assert.rejects(gone, PermitLostError);
    await permit.release();
  });
}

test('a holder whose long poll misses the end hears of it, and how it was, by its next renewal or release', async () => {
  const polled = new Set<string>();
  const client = withHistories(temporal.client, async ({ execution }, ask) => {
    const { workflowId, runId } = execution ?? {};
    if (!runId || !workflowId?.startsWith('permit:') || polled.has(runId)) return await ask();
    polled.add(runId);
    return await new Promise<never>(() => {}); // as a busy server does, which drops an event for a poll that has not read the last one
  });
  const semaphore = new SemaphoreClient(
    client,
    temporal.resource(),
    optionsOf({ lease: '1 minute', renewEvery: '1s' }),
  );
  const revoke = ({ workflowId, runId }: Permit) =>
    temporal.client.workflow.getHandle(workflowId, runId).signal(REVOKE, { reason: 'maintenance' });
  const permit = await semaphore.acquire();
  const lostAtRelease = assert.rejects(semaphore.withPermit(revoke), { how: 'revoked', reason: 'maintenance' });
  await revoke(permit);
  const { how, reason } = await lossOf(permit);
  assert.deepEqual([how, reason], ['revoked', 'maintenance']);
  await permit.release();
  await lostAtRelease;
});

test('a connection cut for a while loses no permit', async () => {
  const { proxy, client } = await throughProxy({ interceptors: [] }); // whatever the SDK itself tries again
  const options = optionsOf({ lease: '1 minute', renewEvery: '500ms' });
  const permit = await new SemaphoreClient(client, temporal.resource(), options).acquire();
  proxy.cut('reset');
  await delay(2_000); // some renewals fail
  const beforeMs = permit.deadline.getTime();
  proxy.mend();
  await until(() => permit.deadline.getTime() > beforeMs + 1_000);
  assert.equal(permit.signal.aborted, false);
  assert.equal(await statusOf(permit), 'RUNNING');
  await permit.release();
});

test('a connection cut for longer than the lease loses the permit, told before the lease ends', async () => {
  const lose = async (how: 'reset' | 'silent') => {
    const resource = temporal.resource();
    // Without the SDK's own retries: one that sleeps when its connection is closed throws out of a timer.
    const { proxy, client } = await throughProxy({ interceptors: [] });
    const permit = await new SemaphoreClient(client, resource, optionsOf({ lease: '4s' })).acquire();
    proxy.cut(how);
    const waiting = clientOf(resource).acquire();
    assert.ok(await isToldInTime(permit));
    const loss = await lossOf(permit);
    assert.deepEqual([loss.how, loss.resource, loss.slot, loss.runId], ['lease-expired', resource, '0', permit.runId]);
    assert.ok(loss.cause instanceof Error, 'it says why no renewal got through');
    const next = await waiting;
    await assert.rejects(permit.renew(), PermitLostError);
    await permit.release();
    proxy.mend();
    assert.equal(await statusOf(next), 'RUNNING');
    await next.release();
  };
  await Promise.all([lose('reset'), lose('silent')]);
});

test('a lease that is not renewed is a hard bound, of which its holder is told before', async () => {
  const permit = await clientOf(temporal.resource(), { lease: '2s', renewEvery: false }).acquire();
  assert.ok(await isToldInTime(permit));
  assert.equal((await lossOf(permit)).how, 'lease-expired');
  await assert.rejects(permit.renew(), PermitLostError);
});

test('a lost permit that nobody releases does not keep its process up, although the server can not be reached', async () => {
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const semaphore = optionsOf({ lease: '2s' });
  const dropping = new ClientProcess({ address: proxy.address, resource: temporal.resource(), semaphore, drops: true });
  clean.push(() => dropping.kill());
  await dropping.until('acquired');
  proxy.cut('reset');
  await dropping.until('lost');
  assert.equal(await dropping.exit, 0);
});

function intercepted(interceptor: WorkflowClientInterceptor): Client {
  const { connection } = temporal.client;
  return new Client({ connection, interceptors: { workflow: [interceptor] } });
}

/** A client whose calls to start a permit go as the test says. */
function withStarts(tamper: (start: () => Promise<string>) => Promise<string>): Client {
  return intercepted({ start: (input, next) => tamper(() => next(input)) });
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
  const permit = await new SemaphoreClient(client, resource, optionsOf({})).tryAcquire();
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
  const permit = await new SemaphoreClient(client, temporal.resource(), optionsOf({})).tryAcquire();
  assert.ok(permit);
  assert.deepEqual(failures, []);
  await permit.release();
});

test('an acquire that never reaches the server times out with the cause', async () => {
  const client = withStarts(async () => {
    throw grpcError(14, 'UNAVAILABLE');
  });
  const semaphore = new SemaphoreClient(client, temporal.resource(), optionsOf({}));
  await assert.rejects(semaphore.acquire({ timeout: '1s' }), (error) => {
    assert.ok(error instanceof Error && error.name === 'PermitTimeoutError');
    assert.match(error.message, /could not be reached/);
    assert.ok(error.cause);
    return true;
  });
});

test('a waiter that has lost the server times out with the cause, and its function does not run', async () => {
  const resource = temporal.resource();
  const { proxy, client } = await throughProxy({ interceptors: [] });
  const permit = await clientOf(resource).acquire();
  let hasRun = false;
  const work = async () => {
    hasRun = true;
  };
  const semaphore = new SemaphoreClient(client, resource, optionsOf({}));
  const working = semaphore.withPermit(work, { timeout: '10s' });
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

test('without a server, an acquire rejects in time and says why, in line or before', async (t) => {
  const timeWithout = async (cut: 'reset' | 'silent' | 'deaf') => {
    const resource = temporal.resource();
    const { proxy, client } = await throughProxy({ interceptors: [] });
    const permit = await clientOf(resource).acquire();
    const semaphore = new SemaphoreClient(client, resource, optionsOf({}));
    const checkTimeOf = async (timeoutMs: number) => {
      const sinceMs = performance.now();
      await assert.rejects(semaphore.acquire({ timeout: timeoutMs }), (error) => {
        assert.ok(error instanceof PermitTimeoutError && error.cause instanceof Error, String(error));
        assert.match(messageOf(error.cause), /UNAVAILABLE|DEADLINE_EXCEEDED|not answered/i);
        return true;
      });
      const tookMs = performance.now() - sinceMs;
      t.diagnostic(`${cut}: a timeout of ${timeoutMs} ms took ${Math.round(tookMs)} ms`);
      assert.ok(tookMs >= timeoutMs - 10 && tookMs < timeoutMs + 1_000, `${cut}: ${tookMs}`);
    };
    const inLine = checkTimeOf(10_000); // a busy machine has time to put it in line
    await untilWaiting(temporal.client, resource, 1);
    proxy.cut(cut);
    await inLine;
    await checkTimeOf(3_000);
    await permit.release();
  };
  await Promise.all([timeWithout('reset'), timeWithout('silent'), timeWithout('deaf')]);
});

test('a caller with next to no time has a free slot all the same', async () => {
  for (const timeout of [1, 3, 5, 10]) {
    const permit = await clientOf(temporal.resource()).acquire({ timeout });
    await permit.release();
  }
});

test('a caller that aborts for a failed call of its own gets its reason, not a timeout', async () => {
  const resource = temporal.resource();
  const permit = await clientOf(resource).acquire();
  const enough = new AbortController();
  const waiting = clientOf(resource).acquire({ signal: enough.signal });
  await untilWaiting(temporal.client, resource, 1);
  const reason = new Error('enough', { cause: grpcError(14, 'UNAVAILABLE') });
  enough.abort(reason);
  await assert.rejects(waiting, reason);
  await permit.release();
});

test('a set whose first part is lost, because no renewal gets through, tells that loss, not a timeout', async () => {
  const [a, b] = [temporal.resource('a'), temporal.resource('b')];
  const held = await clientOf(b).acquire();
  const client = intercepted({
    signal: async (input, next) => {
      if (input.signalName === RENEW) throw grpcError(14, 'UNAVAILABLE');
      await next(input);
    },
  });
  const set = acquireAll([new SemaphoreClient(client, a, optionsOf({ lease: '2s' })), clientOf(b)]);
  await assert.rejects(set, (error) => {
    assert.ok(error instanceof PermitLostError, String(error));
    assert.deepEqual([error.resource, error.how], [a, 'lease-expired']);
    return true;
  });
  await held.release();
});

test('cut off as maxHold comes, the permit is lost before the server ends it, whatever was renewed', async () => {
  const { proxy, client } = await throughProxy({ interceptors: [] });
  const options = optionsOf({ lease: '4s', renewEvery: '500ms', maxHold: '6s' });
  const permit = await new SemaphoreClient(client, temporal.resource(), options).acquire();
  const firstMs = permit.deadline.getTime();
  const MOST_MS = firstMs + 2_000; // it tells no later end than the server has
  await until(() => permit.deadline.getTime() > MOST_MS - 50);
  await delay(100);
  for (let renewal = 0; renewal < 2; renewal++) await permit.renew(); // the first may have been under way
  proxy.cut('silent');
  assert.ok(permit.deadline.getTime() < MOST_MS + 50);
  assert.ok(await isToldInTime(permit));
  assert.equal((await lossOf(permit)).how, 'timed-out');
});

test('a holder learns at once that it was revoked, although the server is slow to say why', async () => {
  let answer = () => {};
  const slow = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const describe: WorkflowClientInterceptor['describe'] = async (input, next) => {
    await slow;
    return await next(input);
  };
  const resource = temporal.resource();
  const options = optionsOf({ lease: '1 hour', renewEvery: false });
  const permit = await new SemaphoreClient(intercepted({ describe }), resource, options).acquire();
  const lost = lossOf(permit);
  await operatorOf(clientOf(resource)).revoke('0', { reason: 'node drain' });
  assert.equal((await lost).how, 'revoked');
  answer();
});

test('an abort ends the wait for a call whose connection does not heed it', async () => {
  const [stop, deaf] = [new AbortController(), new Promise<never>(() => {})];
  const called = new Server(temporal.client).call(() => deaf, 60_000, stop.signal);
  stop.abort(new Error('no more'));
  await assert.rejects(called, /no more/);
});

test("a release that is sent again, because its answer got lost, leaves the slot's next holder alone", async () => {
  const resource = temporal.resource();
  let releases = 0;
  let next: Permit | undefined;
  const client = intercepted({
    signal: async (input, send) => {
      await send(input);
      if (input.signalName !== RELEASE || releases++ > 0) return;
      next = await clientOf(resource).acquire();
      throw grpcError(14, 'UNAVAILABLE');
    },
  });
  const first = await new SemaphoreClient(client, resource, optionsOf({})).acquire();
  await first.release();
  assert.ok(next);
  assert.equal(releases, 1, 'the second one found the run gone');
  assert.ok(!(await signalsOf(temporal, next)).includes(RELEASE));
  await next.release();
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
  const permit = await new SemaphoreClient(client, resource, optionsOf({})).acquire();
  assert.equal(runs.length, 2);
  assert.equal(permit.runId, runs[1]);
  await permit.release();
});

test('a waiter whose cancellation the server refuses is given up all the same', async () => {
  const cancel = async () => Promise.reject(grpcError(7, 'PERMISSION_DENIED'));
  const client = intercepted({ cancel });
  const resource = temporal.resource();
  const permit = await clientOf(resource).acquire();
  const enough = new AbortController();
  const waiting = new SemaphoreClient(client, resource, optionsOf({})).acquire({ signal: enough.signal });
  await untilWaiting(temporal.client, resource, 1);
  enough.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await permit.release();
});

test('a release that the server refuses does not cost the result, nor the error, of the function', async () => {
  const client = intercepted({
    signal: async (input, next) => {
      if (input.signalName === RELEASE) throw grpcError(7, 'PERMISSION_DENIED');
      await next(input);
    },
  });
  const warnings: Error[] = [];
  const listen = (warning: Error) => warnings.push(warning);
  process.on('warning', listen);
  clean.push(async () => {
    process.off('warning', listen);
  });
  const resource = temporal.resource();
  const semaphore = new SemaphoreClient(client, resource, optionsOf({ lease: '2s' }));
  assert.equal(await semaphore.withPermit(async () => 'the result'), 'the result');
  const failing = async () => {
    throw new Error('its own error');
  };
  await assert.rejects(semaphore.withPermit(failing), /its own error/); // it had the slot when the lease had ended
  await delay(0);
  assert.deepEqual(
    warnings.map(({ name }) => name),
    ['PermitReleaseWarning', 'PermitReleaseWarning'],
  );
  assert.match(warnings[0]?.message ?? '', new RegExp(`${resource}.*could not be released`));
});

test('work that was done under the permit counts, though the lease ends before a release gets through', async () => {
  /** Clients whose signals the server takes until the work is done. */
  const clients = () => {
    let isShedding = false;
    const client = intercepted({
      signal: async (input, next) => {
        if (!isShedding) return await next(input);
        await delay(5_000); // the SDK tries again itself, beyond the lease
        throw grpcError(8, 'RESOURCE_EXHAUSTED');
      },
    });
    const shed = () => {
      isShedding = true;
    };
    const semaphoreOf = (more = {}) =>
      new SemaphoreClient(client, temporal.resource(), optionsOf({ lease: '3s', ...more }));
    return { shed, semaphoreOf };
  };
  type Clients = ReturnType<typeof clients>;
  type Work = () => Promise<string>;
  const ways: ((of: Clients['semaphoreOf'], work: Work) => Promise<string>)[] = [
    (of, work) => of().withPermit(work),
    (of, work) => of({ perKey: 1 }).withPermit(work, { key: 'acme' }),
    (of, work) => withPermits([of(), of()], work),
  ];
  await Promise.all(
    ways.map(async (under) => {
      const [one, other] = [clients(), clients()];
      const done = under(one.semaphoreOf, async () => {
        one.shed();
        return 'done';
      });
      const failed = under(other.semaphoreOf, async () => {
        other.shed();
        throw new Error('its own error');
      });
      assert.deepEqual(await Promise.all([done, assert.rejects(failed, /its own error/)]), ['done', undefined]);
    }),
  );
  const { semaphoreOf, shed } = clients();
  const set = await acquireAll([semaphoreOf(), semaphoreOf()]);
  shed();
  await set.release();
  assert.equal(await set.confirmLoss(), undefined, 'as `run` asks after its command');
});

test('a release on a connection that was closed says that withPermit was not awaited', async () => {
  const { address } = temporal.env;
  for (const connection of [await Connection.connect({ address }), await NativeConnection.connect({ address })]) {
    const resource = temporal.resource();
    const semaphore = new SemaphoreClient(new Client({ connection }), resource, optionsOf({ lease: '2s' }));
    const warned = once(process, 'warning');
    await semaphore.withPermit(async () => await connection.close());
    const [warning] = await warned;
    assert.match(
      warning.message,
      /could not be released, because its connection was already closed\. It ends with its lease\.$/,
    );
    assert.match(warning.detail, /Await withPermit, or the release, before you close the connection\.$/);
    const closed = {
      name: 'ServiceError',
      message: /^The connection of this client was closed\. Make a new connection, /,
    };
    await assert.rejects(semaphore.acquire(), closed);
    await assert.rejects(semaphore.tryAcquire(), closed);
    await assert.rejects(operatorOf(semaphore).inspect(), closed);
    await new SemaphoreClient(temporal.client, resource, optionsOf({})).withPermit(async () => undefined);
  }
});
