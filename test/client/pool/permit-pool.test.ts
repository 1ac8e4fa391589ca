import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  InvalidOptionsError,
  PermitLostError,
  PermitPool,
  type PermitPoolOptions,
  PermitTimeoutError,
  type PoolAcquireOptions,
  PoolClosedError,
  SemaphoreClient,
} from '../../../src/client';
import { currentFencingToken } from '../../../src/fencing';
import type { PermitMemo } from '../../../src/shared/protocol';
import { operatorOf } from '../../support/operators';
import {
  assertNoPermitLeft,
  eventually,
  permitsRunning,
  queueView,
  until,
  untilWaiting,
  useTemporal,
} from '../../support/temporal';

const temporal = useTemporal({ shared: true });

function semaphore(resource: string, capacity = 1, fair = false) {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, { capacity, fair, taskQueue });
}

async function aborted(signal: AbortSignal): Promise<void> {
  await until(() => signal.aborted);
}

test('60 calls on capacity 3: never more than 3 at once, under a few permits', async () => {
  const resource = temporal.resource();
  await using pool = new PermitPool(semaphore(resource, 3));
  const runIds = new Set<string>();
  let now = 0;
  let most = 0;
  const results = await Promise.all(
    Array.from({ length: 60 }, (_, n) =>
      pool.withPermit(async (permit) => {
        runIds.add(permit.runId);
        assert.equal(currentFencingToken(), permit.token, 'one object for all calls under a permit');
        assert.equal(String(permit.token), `${resource}/${permit.slot}/${permit.runId}`);
        most = Math.max(most, ++now);
        await delay(5);
        now--;
        return n;
      }),
    ),
  );
  assert.deepEqual(results, [...Array(60).keys()]);
  assert.ok(most <= 3, `${most} at once`);
  await pool.close();
  await assertNoPermitLeft(temporal.client, resource);
  assert.ok(runIds.size <= 3, `${runIds.size} permits for sixty calls`);
});

test("a function may return no promise: its result and its error are the call's, and the permit is free after both", async () => {
  const resource = temporal.resource();
  await using pool = new PermitPool(semaphore(resource));
  assert.equal(await pool.withPermit(({ slot }) => slot), '0');
  const failing = () => {
    throw new Error('its own');
  };
  await assert.rejects(pool.withPermit(failing), /its own/);
  assert.deepEqual([pool.active, await pool.withPermit(() => 'next')], [0, 'next']);
});

test('the permit says that a pool holds it, and for whom it was asked', async () => {
  const resource = temporal.resource();
  await using pool = new PermitPool(semaphore(resource));
  const permit = await pool.acquire({ purpose: 'proof' });
  const { memo } = await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).describe();
  const { pool: poolId, purpose } = memo as unknown as PermitMemo;
  assert.equal(typeof poolId, 'string');
  assert.equal(purpose, 'proof');
  permit.release();
  permit.release();
});

test('an idle permit goes back after idleFor; within it, it is had again without the server', async () => {
  const resource = temporal.resource();
  await using pool = new PermitPool(semaphore(resource), { idleFor: 1_000 });
  const first = await pool.withPermit(async ({ workflowId, runId }) => ({ workflowId, runId }));
  assert.equal(await pool.withPermit(async ({ runId }) => runId), first.runId);
  const permit = temporal.client.workflow.getHandle(first.workflowId, first.runId);
  assert.equal(await permit.result(), 'released');
  assert.notEqual(await pool.withPermit(async ({ runId }) => runId), first.runId);
});

test('beside a pool that is always busy, others have their turn after reuseFor; and so has the pool again', async () => {
  const resource = temporal.resource();
  const client = semaphore(resource);
  await using pool = new PermitPool(client, { reuseFor: 300 });
  const stop = new AbortController();
  let calls = 0;
  const callers = Array.from({ length: 20 }, async () => {
    while (!stop.signal.aborted) {
      await pool.withPermit(async () => await delay(20));
      calls++;
    }
  });
  await until(() => calls > 5);
  for (let n = 0; n < 3; n++) {
    await client.withPermit(async () => undefined, { timeout: '30s' }); // a pool that is busy keeps its permit for ever
    const before = calls;
    await until(() => calls > before + 5); // the pool goes on
  }
  stop.abort();
  await Promise.all(callers);
});

test('pools without any permit have one after reuseFor; those that have their share keep it', async () => {
  const resource = temporal.resource();
  const rules: PermitPoolOptions = { reuseFor: 300 };
  await using first = new PermitPool(semaphore(resource, 2), rules);
  await using second = new PermitPool(semaphore(resource, 2), rules);
  const stop = new AbortController();
  const runIds = { first: new Set<string>(), second: new Set<string>() };
  const call = async (pool: PermitPool, seen: Set<string>) => {
    while (!stop.signal.aborted) {
      await pool.withPermit(async ({ runId }) => {
        seen.add(runId);
        await delay(20);
      });
    }
  };
  const callers = Array.from({ length: 10 }, () => call(first, runIds.first));
  await eventually(async () => assert.equal(runIds.first.size, 2));
  callers.push(...Array.from({ length: 10 }, () => call(second, runIds.second)));
  await eventually(async () => assert.equal(runIds.second.size, 1));
  await delay(2_000);
  stop.abort();
  await Promise.all(callers);
  assert.equal(runIds.second.size, 1, 'one each: nothing moves');
});

test('a revoked permit: its call is told and rejects, the callers behind it get another', async () => {
  const resource = temporal.resource();
  const client = semaphore(resource);
  await using pool = new PermitPool(client);
  let wasTold = false;
  const running = pool.withPermit(async (permit) => {
    void operatorOf(client).revoke(permit.slot, { reason: 'drain' });
    await aborted(permit.signal);
    wasTold = true;
    return permit.runId;
  });
  const behind = pool.withPermit(async ({ signal }) => signal.aborted);
  await assert.rejects(running, (error) => {
    assert.ok(error instanceof PermitLostError);
    assert.deepEqual([error.how, error.reason], ['revoked', 'drain']);
    return true;
  });
  assert.ok(wasTold, 'its signal aborted');
  assert.equal(await behind, false);
});

test('close waits for a call whose permit is lost, as for any other', async () => {
  const resource = temporal.resource();
  const client = semaphore(resource);
  const pool = new PermitPool(client);
  let [isLost, isDone] = [false, false];
  const running = pool.withPermit(async ({ slot, signal }) => {
    await operatorOf(client).revoke(slot);
    await aborted(signal);
    isLost = true;
    await delay(500);
    isDone = true;
  });
  running.catch(() => undefined); // told below
  await until(() => isLost);
  await pool.close();
  assert.ok(isDone, 'the call still runs');
  await assert.rejects(running, PermitLostError);
});

test('close: those that wait and those that come later are refused, running calls finish, nothing is left', async () => {
  const resource = temporal.resource();
  const pool = new PermitPool(semaphore(resource));
  let finish = () => {};
  const running = pool.withPermit(async () => {
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    return 'done';
  });
  await eventually(async () => assert.equal((await permitsRunning(temporal.client, resource)).length, 1));
  const waiting = pool.withPermit(async () => 'never');
  await delay(50);
  const closing = pool.close();
  assert.equal(pool.close(), closing);
  await assert.rejects(waiting, PoolClosedError);
  await assert.rejects(pool.acquire(), PoolClosedError);
  finish();
  assert.equal(await running, 'done');
  await closing;
  await assertNoPermitLeft(temporal.client, resource);
});

test('calls made just before close have what is there: a free slot, or an idle permit; the others are refused', async () => {
  const resource = temporal.resource();
  const client = semaphore(resource, 2);
  const closedAtOnce = async (pool: PermitPool, served: number) => {
    const ends: string[] = [];
    const call = async () => {
      // Those that are served last until the others are refused, which else would be served after them.
      const ended = pool.withPermit(() => until(() => ends.length >= 4 - served));
      ends.push(await ended.then(() => 'done').catch((error: Error) => error.name));
    };
    const all = [call(), call(), call(), call(), pool.close()];
    await assert.rejects(pool.acquire(), PoolClosedError);
    await Promise.all(all);
    return ends;
  };
  const refused = ['PoolClosedError', 'PoolClosedError'];
  assert.deepEqual(await closedAtOnce(new PermitPool(client), 2), [...refused, 'done', 'done']);
  const warm = new PermitPool(client, { max: 1, idleFor: '1 hour' });
  await warm.withPermit(async () => undefined);
  assert.deepEqual(await closedAtOnce(warm, 1), [...refused, 'PoolClosedError', 'done']);
  assert.deepEqual(await permitsRunning(temporal.client, resource), []);
});

test('a pool tells how many calls run and wait, and when all are done', async () => {
  const pool = new PermitPool(semaphore(temporal.resource(), 2));
  await pool.idle(); // of nobody
  const gate = new AbortController();
  const held = async () => await aborted(gate.signal);
  const calls = Array.from({ length: 5 }, () => pool.withPermit(held));
  assert.deepEqual([pool.active, pool.waiting], [0, 5]);
  let isIdle = false;
  const idle = pool.idle().then(() => {
    isIdle = true;
  });
  await until(() => pool.active === 2 && pool.waiting === 3);
  assert.equal(isIdle, false);
  gate.abort();
  await Promise.all(calls);
  await idle;
  assert.deepEqual([pool.active, pool.waiting], [0, 0]);
  await pool.close();
});

test('close while the pool stands in line leaves neither permit nor waiter', async () => {
  const resource = temporal.resource();
  const client = semaphore(resource);
  const permit = await client.acquire();
  const pool = new PermitPool(client);
  const waiting = pool.acquire();
  waiting.catch(() => undefined);
  await eventually(async () => assert.equal((await queueView(temporal.client, resource))?.tickets.length, 1));
  await pool.close();
  await assert.rejects(waiting, PoolClosedError);
  await permit.release();
});

test('timeout, signal and tryAcquire', async () => {
  const resource = temporal.resource();
  await using pool = new PermitPool(semaphore(resource));
  const permit = await pool.tryAcquire();
  assert.ok(permit);
  assert.equal(await pool.tryAcquire(), undefined);
  await assert.rejects(pool.acquire({ timeout: 0 }), PermitTimeoutError);
  await assert.rejects(pool.acquire({ timeout: 100 }), (error) => {
    assert.ok(error instanceof PermitTimeoutError);
    assert.deepEqual([error.resource, error.timeoutMs, error.unpolled], [resource, 100, undefined]);
    return true;
  });
  const stop = new AbortController();
  const waiting = pool.acquire({ signal: stop.signal });
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await assert.rejects(pool.acquire({ signal: AbortSignal.abort(new Error('from the start')) }), /from the start/);
  const order: string[] = [];
  const note = (name: string) => async () => void order.push(name);
  const calls = [
    pool.withPermit(note('first')),
    pool.withPermit(note('second')),
    pool.withPermit(note('urgent'), { priority: { priorityKey: 1 } }),
  ];
  permit.release();
  await Promise.all(calls);
  assert.deepEqual(order, ['urgent', 'first', 'second']);
});

test('in strict order, tryAcquire overtakes no waiter, not even to a slot that the waiter does not want', async () => {
  const resource = temporal.resource();
  const held = await semaphore(resource, 1).acquire();
  const waiter = semaphore(resource, 1).acquire();
  await untilWaiting(temporal.client, resource, 1);
  // If the queue says nothing for a while, as on a busy machine, a try takes a free slot: then another one is made.
  await until(async () => {
    await using fair = new PermitPool(semaphore(resource, 2, true));
    const overtaking = await fair.tryAcquire();
    await overtaking?.release();
    return overtaking === undefined;
  });
  await using hasty = new PermitPool(semaphore(resource, 2));
  const permit = await hasty.tryAcquire();
  assert.equal(permit?.slot, '1');
  await permit.release();
  await held.release();
  await (await waiter).release();
});

test('a pool that an operator pauses gives back; resumed, it goes on', async () => {
  const resource = temporal.resource();
  const client = semaphore(resource);
  await using pool = new PermitPool(client, { reuseFor: 300 });
  const stop = new AbortController();
  let calls = 0;
  const callers = Array.from({ length: 3 }, async () => {
    while (!stop.signal.aborted) {
      await pool.withPermit(async () => await delay(20));
      calls++;
    }
  });
  await until(() => calls > 5);
  await operatorOf(client).pause();
  const isDrained = async () => (await operatorOf(client).inspect()).slots.every(({ state }) => state === 'drained');
  await until(() => isDrained());
  const before = calls;
  await delay(500);
  assert.equal(calls, before);
  await operatorOf(client).resume();
  await until(() => calls > before);
  stop.abort();
  await Promise.all(callers);
});

const BAD: [string, unknown, unknown, RegExp][] = [
  ['a max above the capacity', { max: 2 }, {}, /max: expected a whole number from 1 to 1, got 2/],
  ['reuseFor 0', { reuseFor: 0 }, {}, /reuseFor: expected a duration of 1 ms or more/],
  [
    'a lease of one call',
    {},
    { lease: '1s' },
    /Unknown option "lease"\. Known: timeout, priority, purpose, key, signal\./,
  ],
  ['a signal that is none', {}, { signal: {} }, /signal: expected an AbortSignal/],
];
for (const [what, options, acquire, message] of BAD) {
  test(`${what} is refused`, async () => {
    await assert.rejects(
      async () =>
        await new PermitPool(semaphore('pool'), options as PermitPoolOptions).acquire(acquire as PoolAcquireOptions),
      (error) => error instanceof InvalidOptionsError && message.test(error.message),
    );
  });
}
