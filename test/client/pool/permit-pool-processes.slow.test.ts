import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SemaphoreClient } from '../../../src/client';
import { operatorOf } from '../../support/operators';
import type { PoolInput } from '../../support/pool-main';
import { assertCallsSafe, PoolProcess } from '../../support/pool-process';
import { RESOURCE_EXHAUSTED, RefusingProxy } from '../../support/refusing-proxy';
import { assertNoPermitLeft, useTemporal } from '../../support/temporal';

const temporal = useTemporal({ shared: true });

const CAPACITY = 3;
const LEASE_MS = 2_000;
const CALLERS = 10;
const CALLS = 40;

test('pools of which one is killed and one is stopped past its lease, with a revocation: never too many calls', async () => {
  const resource = temporal.resource();
  const { taskQueue } = temporal;
  const semaphore = { capacity: CAPACITY, taskQueue, lease: LEASE_MS, renewEvery: 500 };
  const input: PoolInput = {
    address: temporal.env.address,
    resource,
    semaphore,
    pool: { reuseFor: 500 },
    callers: CALLERS,
    callMs: 20,
    calls: CALLS,
  };
  const processes = await PoolProcess.open(input, input, input);
  const [killed, stopped, survivor] = processes as [PoolProcess, PoolProcess, PoolProcess];
  for (const it of processes) it.go();
  const hasCalled = async (it: PoolProcess) => {
    while (it.calls.length < 5) await delay(20);
  };
  await Promise.all(processes.map(hasCalled)); // each has had a permit
  await killed.kill();
  stopped.signal('SIGSTOP');
  const client = new SemaphoreClient(temporal.client, resource, semaphore);
  await Promise.race([
    ...['0', '1', '2'].map(async (slot) => {
      await operatorOf(client)
        .revoke(slot, { reason: 'drain' })
        .catch(() => undefined); // it may be free just now
    }),
    delay(LEASE_MS + 1_000),
  ]);
  await delay(LEASE_MS + 1_000);
  stopped.signal('SIGCONT');
  await Promise.all([survivor.until('closed'), stopped.until('closed')]);
  await assertNoPermitLeft(temporal.client, resource);
  for (const it of [survivor, stopped]) assert.equal(it.calls.length, CALLERS * CALLS, 'every caller was served');
  const calls = processes.flatMap((it) => it.calls);
  await assertCallsSafe(temporal.client, resource, CAPACITY, calls);
  const permits = new Set(calls.map(({ runId }) => runId)).size;
  assert.ok(permits < calls.length / 3, `${permits} permits for ${calls.length} calls: they were reused`);
});

test('the connection is closed right after a pool whose look the server has put off: the process lives on', async () => {
  const { env, taskQueue } = temporal;
  const proxy = await RefusingProxy.to(env.address, 'QueryWorkflow', RESOURCE_EXHAUSTED);
  const input: PoolInput = {
    address: proxy.address,
    resource: temporal.resource(),
    semaphore: { capacity: 1, taskQueue },
    pool: { reuseFor: 300 },
    callers: 1,
    callMs: 400, // a look is due at its end
    calls: 2,
  };
  const [process] = await PoolProcess.open(input);
  process?.go();
  assert.equal(await process?.exit, 0); // it ends when nothing is left that the SDK would try again
  proxy.close();
});
