import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import { acquireAll, PermitPool, PermitTimeoutError, PoolClosedError, SemaphoreClient } from '../../src/client';
import { untilStates } from '../support/inspected';
import { untilWaiting, useTemporal } from '../support/temporal';

// A claim can't be recalled. Whoever gives up while the server is slow gives back what the claim wins, long before a lease would.

const temporal = useTemporal({ shared: true });

/** So late are the answers of a slow server. */
const SLOW_MS = 600;

/** No lease ends during a test. */
const LEASE = '10 minutes';

const clean: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

interface Party {
  resource: string;
  proxy: TcpProxy;
  /** By way of the proxy. */
  slow: SemaphoreClient;
  direct: SemaphoreClient;
}

async function party(capacity: number): Promise<Party> {
  const resource = temporal.resource();
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const connection = await Connection.connect({ address: proxy.address });
  clean.push(() => connection.close());
  const options = { capacity, taskQueue: temporal.taskQueue, lease: LEASE };
  const slow = new SemaphoreClient(new Client({ connection }), resource, options);
  return { resource, proxy, slow, direct: new SemaphoreClient(temporal.client, resource, options) };
}

const isLate = (error: unknown) => error instanceof PermitTimeoutError || (error as Error).name === 'TimeoutError';

const ALL_FREE = /^(\d+ free(, )?)+$/;

test('200 acquires that time out on a slow server keep no slot for a lease', async (t) => {
  const { proxy, slow, direct } = await party(50);
  proxy.slowDown({ answersMs: SLOW_MS });
  const acquires = Array.from({ length: 200 }, async (_, index) => {
    await delay(10 * index);
    const permit = await slow.acquire({ timeout: 100 });
    await permit.release();
  });
  for (const end of await Promise.allSettled(acquires))
    if (end.status === 'rejected') assert.ok(isLate(end.reason), end.reason);
  const lastMs = performance.now();
  await untilStates(direct, ALL_FREE);
  t.diagnostic(`no slot was taken ${((performance.now() - lastMs) / 1_000).toFixed(1)} s after the last`);
  await slow.close();
});

const GIVING_UP = {
  'an acquire that times out': ({ slow }: Party) => slow.acquire({ timeout: 100 }),
  'an acquire that is aborted': ({ slow }: Party) => slow.acquire({ signal: AbortSignal.timeout(100) }),
  'a set that times out': ({ slow }: Party) => acquireAll([{ of: slow, permits: 2 }], { timeout: 1_500 }),
  'a try that has no answer in time': ({ slow, proxy }: Party) => {
    proxy.slowDown({ answersMs: 3 * SLOW_MS });
    return slow.acquire({ timeout: 0 });
  },
};

for (const [who, giveUp] of Object.entries(GIVING_UP)) {
  test(`${who} on a slow server gives back what it has won, and the close waits for it`, async () => {
    const all = await party(3);
    all.proxy.slowDown({ answersMs: SLOW_MS });
    await assert.rejects(giveUp(all), isLate);
    await all.slow.close();
    all.proxy.cut('reset');
    await untilStates(all.direct, ALL_FREE);
  });
}

test('a permit pool whose callers time out on a slow server keeps nothing after its close', async () => {
  const { proxy, slow, direct } = await party(3);
  const pool = new PermitPool(slow);
  proxy.slowDown({ answersMs: SLOW_MS });
  await Promise.all(Array.from({ length: 10 }, () => assert.rejects(pool.acquire({ timeout: 100 }), isLate)));
  await pool.close();
  proxy.cut('reset');
  await untilStates(direct, ALL_FREE);
});

test('a permit pool that is closed while it waits on a slow server has left the queue by then', async () => {
  const { resource, proxy, slow, direct } = await party(1);
  const holder = await direct.acquire();
  const pool = new PermitPool(slow);
  const refused = assert.rejects(pool.acquire(), PoolClosedError);
  await untilWaiting(temporal.client, resource, 1);
  proxy.slowDown({ requestsMs: SLOW_MS });
  await pool.close();
  proxy.cut('reset');
  await refused;
  await untilWaiting(temporal.client, resource, 0);
  await holder.release();
});

test('a waiter whose turn comes as its time is up passes the slot on', async () => {
  const { proxy, slow, direct } = await party(1);
  const holder = await direct.acquire();
  const waiting = assert.rejects(slow.acquire({ timeout: 3_000 }), isLate);
  await delay(1_500);
  proxy.slowDown({ answersMs: 2 * SLOW_MS });
  await delay(500);
  await holder.release();
  await waiting;
  await slow.close();
  await untilStates(direct, ALL_FREE);
});

test('answers that get lost for good cost the slot no lease: the claim looks for its permit', async () => {
  const { proxy, slow, direct } = await party(1);
  proxy.cut('deaf');
  await assert.rejects(slow.acquire({ timeout: 500 }), isLate);
  await untilStates(direct, /0 held/);
  proxy.mend();
  await untilStates(direct, ALL_FREE);
  await slow.close();
});
