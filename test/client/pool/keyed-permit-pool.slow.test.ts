import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  PermitLostError,
  PermitPool,
  type PermitPoolOptions,
  PermitTimeoutError,
  PoolClosedError,
} from '../../../src/client';
import { Operator } from '../../../src/operator';
import { keyResource } from '../../../src/shared/key-names';
import { permitId } from '../../../src/shared/permit-id';
import { REVOKE } from '../../../src/shared/protocol';
import { clientOf } from '../../support/sets';
import {
  assertNoPermitLeft,
  assertSafe,
  eventually,
  permitsRunning,
  until,
  untilWaiting,
  useTemporal,
} from '../../support/temporal';

// A permit pool of a semaphore with a limit per key.

const temporal = useTemporal({ shared: true });

const KEYED = { capacity: 3, perKey: 2 } as const;

function poolOf(
  resource: string,
  semaphore: typeof KEYED | { capacity: number; perKey: number; fair?: boolean } = KEYED,
  options?: PermitPoolOptions,
) {
  return new PermitPool(clientOf(temporal, resource, semaphore), options);
}

/** How many calls of each key run, and of all. */
class Running {
  readonly most = new Map<string, number>();
  private readonly now = new Map<string, number>();

  async call(pool: PermitPool, key: string, ms = 20): Promise<string> {
    return await pool.withPermit(
      async ({ resource }) => {
        for (const of of [key, '']) {
          const count = (this.now.get(of) ?? 0) + 1;
          this.now.set(of, count);
          this.most.set(of, Math.max(count, this.most.get(of) ?? 0));
        }
        await delay(ms);
        for (const of of [key, '']) this.now.set(of, (this.now.get(of) ?? 0) - 1);
        return resource;
      },
      { key },
    );
  }
}

async function assertNothingLeft(resource: string, ...keys: string[]): Promise<void> {
  for (const name of [resource, ...keys.map((key) => keyResource(resource, key))])
    await assertNoPermitLeft(temporal.client, name);
}

test('60 calls of 4 keys in two pools: never more than 2 of a key, and 3 in all, under few permits', async () => {
  const resource = temporal.resource('keyed');
  const running = new Running();
  const pools = [poolOf(resource), poolOf(resource)];
  const calls = Array.from({ length: 60 }, (_, nth) =>
    running.call(pools[nth % 2] as PermitPool, 'abcd'[nth % 4] as string),
  );
  assert.deepEqual(new Set(await Promise.all(calls)), new Set([resource]), 'what they hold is a permit of the whole');
  assert.ok((running.most.get('') ?? 0) <= 3);
  for (const key of 'abcd') assert.ok((running.most.get(key) ?? 0) <= 2, key);
  await Promise.all(pools.map((pool) => pool.close()));
  await assertNothingLeft(resource, ...'abcd');
  const holds = await assertSafe(temporal.client, resource, 3, []);
  assert.ok(holds.length < 60, `${holds.length} permits for 60 calls`);
});

test('a key that is full holds no permit of the whole, and its timeout names it; another key has its permit beside it', async () => {
  const resource = temporal.resource('keyed');
  const pool = poolOf(resource, { capacity: 2, perKey: 1 });
  const held = await pool.acquire({ key: 'acme' });
  const late = pool.acquire({ key: 'acme', timeout: 300 });
  await assert.rejects(late, (error: Error) => {
    assert.ok(error instanceof PermitTimeoutError);
    assert.deepEqual([error.resource, error.timeoutMs], [keyResource(resource, 'acme'), 300]);
    return true;
  });
  assert.equal(await pool.tryAcquire({ key: 'acme' }), undefined);
  const other = await pool.acquire({ key: 'other' });
  const third = await pool
    .acquire({ key: 'third', timeout: 2_000 })
    .catch((error: PermitTimeoutError) => error.resource);
  assert.equal(third, resource);
  assert.equal(pool.active, 2);
  held.release();
  other.release();
  await pool.idle();
  await pool.close();
  await assertNothingLeft(resource, 'acme', 'other', 'third');
});

test('permits of a key that nobody uses go back after idleFor, also while others of the pool are used', async () => {
  const resource = temporal.resource('keyed');
  const pool = poolOf(resource, KEYED, { idleFor: 100 });
  const held = await pool.acquire({ key: 'busy' });
  for (const key of ['a', 'b']) await pool.withPermit(async () => undefined, { key });
  await eventually(async () => {
    for (const key of ['a', 'b'])
      assert.deepEqual(await permitsRunning(temporal.client, keyResource(resource, key)), []);
  });
  assert.equal((await permitsRunning(temporal.client, keyResource(resource, 'busy'))).length, 1);
  held.release();
  await pool.close();
});

test("somebody else of a key gets that key's permit while the pool is busy with it", async () => {
  const resource = temporal.resource('keyed');
  const pool = poolOf(resource, { capacity: 5, perKey: 1 }, { reuseFor: 300 });
  let isOver = false;
  const busy = (async () => {
    while (!isOver) await pool.withPermit(async () => await delay(20), { key: 'acme' });
  })();
  await until(() => pool.active === 1);
  const other = await clientOf(temporal, resource, { capacity: 5, perKey: 1 }).acquire({ key: 'acme' });
  await other.release();
  isOver = true;
  await busy;
  await pool.close();
  await assertNothingLeft(resource, 'acme');
});

test('with a permit of a key, the pool also gives back the one of the whole that it was for', async () => {
  const resource = temporal.resource('keyed-moves');
  const rules = { reuseFor: 300, idleFor: '20 s' } as const;
  const [busy, other] = [1, 2].map(() => poolOf(resource, { capacity: 1, perKey: 1 }, rules)) as [
    PermitPool,
    PermitPool,
  ];
  let isOver = false;
  const callers = Array.from({ length: 2 }, async () => {
    // Shorter than an acquire: the permit of the whole, which came after the key's, has not served for 300 ms when the key's goes back.
    while (!isOver) await busy.withPermit(async () => await delay(1), { key: 'acme' });
  });
  const sinceMs = Date.now();
  const served = await other.withPermit(async () => Date.now() - sinceMs, { key: 'acme' });
  assert.ok(served < 10_000, `the other pool had the key's permit, and waited ${served} ms for one of the whole`);
  isOver = true;
  await other.close();
  await Promise.all(callers);
  await busy.close();
  await assertNothingLeft(resource, 'acme');
});

test('an operator changes how many permits a key has: a permit pool that is busy follows, up, down and back', async () => {
  const resource = temporal.resource('keyed');
  const pool = poolOf(resource, { capacity: 4, perKey: 2 }, { reuseFor: 200 });
  const { client, taskQueue } = temporal;
  const acme = new Operator(client, resource, { key: 'acme', perKey: 2, taskQueue });
  let isOver = false;
  const busy = Array.from({ length: 8 }, async () => {
    while (!isOver) await pool.withPermit(async () => await delay(20), { key: 'acme' });
  });
  const untilRun = async (most: number, slots: string[]) => {
    await until(() => pool.active === most);
    await eventually(async () => {
      const seen = (await acme.inspect({ recent: 0 })).slots.filter(({ state }) => state === 'held');
      assert.deepEqual(
        seen.map(({ slot }) => slot),
        slots,
      );
    });
    for (let look = 0; look < 20; look++) {
      assert.ok(pool.active <= most, `${pool.active} of ${most}`);
      await delay(5);
    }
  };
  await untilRun(2, ['0', '1']);
  await acme.resize(5);
  await untilRun(4, ['0', '1', '2', '3', '4']);
  await acme.resize(1);
  await untilRun(1, ['0']);
  await acme.resize(3);
  await untilRun(3, ['0', '1', '2']);
  await acme.resize(2); // as declared: the override is gone, and with it the queue
  await untilRun(2, ['0', '1']);
  isOver = true;
  await Promise.all(busy);
  await pool.close();
  await assertNothingLeft(resource, 'acme');
});

test('a call that has the permit of a key and none of the whole gives way to a better priority, and then keeps its age', async () => {
  const resource = temporal.resource('keyed');
  const keyed = { capacity: 1, perKey: 1 };
  const pool = poolOf(resource, keyed);
  const other = await clientOf(temporal, resource, keyed).acquire({ key: 'other' });
  const order: string[] = [];
  const call = (name: string, priorityKey: number, timeout?: number) =>
    pool.withPermit(async () => void order.push(name), { key: 'acme', priority: { priorityKey }, timeout });
  const batch = call('batch', 5);
  await untilWaiting(temporal.client, resource, 1);
  const later = call('later batch', 5);
  const alarm = call('alarm', 1);
  await eventually(async () => {
    const [ticket] = (await untilWaiting(temporal.client, resource, 1)).tickets;
    assert.equal(ticket?.priorityKey, 1);
  });
  await assert.rejects(call('late', 1, 300), PermitTimeoutError);
  await other.release();
  await Promise.all([batch, later, alarm]);
  assert.deepEqual(order, ['alarm', 'batch', 'later batch']);
  await pool.close();
  await assertNothingLeft(resource, 'acme', 'other');
});

test('a call that has the permit of a key and none of the whole gives way to a better priority elsewhere', async () => {
  const resource = temporal.resource('keyed');
  const keyed = { capacity: 1, perKey: 1, fair: true };
  const pool = poolOf(resource, keyed, { reuseFor: 300 });
  const client = clientOf(temporal, resource, keyed);
  const other = await client.acquire({ key: 'other' });
  const order: string[] = [];
  const run = (name: string) => async () => void order.push(name);
  const batch = pool.withPermit(run('batch'), { key: 'acme', priority: { priorityKey: 5 } });
  await untilWaiting(temporal.client, resource, 1);
  const alarm = client.withPermit(run('alarm'), { key: 'acme', priority: { priorityKey: 1 } });
  await eventually(async () => {
    const { tickets } = await untilWaiting(temporal.client, resource, 1);
    assert.ok(tickets.every(({ priorityKey }) => priorityKey === 1));
  });
  await other.release();
  await Promise.all([batch, alarm]);
  assert.deepEqual(order, ['alarm', 'batch']);
  await pool.close();
  await assertNothingLeft(resource, 'acme', 'other');
});

test('a call whose key loses its permit is told; one that waits for the whole meanwhile does not run', async () => {
  const resource = temporal.resource('keyed');
  const pool = poolOf(resource, { capacity: 1, perKey: 1 });
  const revokeKey = async (key: string) => {
    const handle = temporal.client.workflow.getHandle(permitId({ resource: keyResource(resource, key), slot: '0' }));
    await handle.signal(REVOKE);
    await handle.result();
  };
  let reason: unknown;
  const running = pool.withPermit(
    async ({ signal }) => {
      await revokeKey('acme');
      await until(() => signal.aborted);
      ({ reason } = signal);
      const waiting = pool.withPermit(async () => assert.fail('it has no permit of its key'), { key: 'other' });
      waiting.catch(() => undefined); // told below
      await untilWaiting(temporal.client, keyResource(resource, 'other'), 0);
      await until(async () => (await permitsRunning(temporal.client, keyResource(resource, 'other'))).length === 1);
      await revokeKey('other');
      return waiting;
    },
    { key: 'acme' },
  );
  await assert.rejects(running, PermitLostError);
  assert.ok(reason instanceof PermitLostError);
  assert.equal(reason.resource, keyResource(resource, 'acme'));
  await pool.close();
  await assertNothingLeft(resource, 'acme', 'other');
});

test('closed, a pool gives back what it holds of each key; calls made just before have what is there', async () => {
  const resource = temporal.resource('keyed');
  const pool = poolOf(resource, { capacity: 2, perKey: 1 });
  let refused = 0;
  const calls = ['a', 'a', 'b', 'c'].map(async (key) => {
    try {
      return await pool.withPermit(async () => await until(() => refused >= 2).then(() => key), { key });
    } catch (error) {
      refused++;
      return (error as Error).name;
    }
  });
  await pool.close();
  const ends = await Promise.all(calls);
  assert.equal(ends[1], 'PoolClosedError');
  // Two calls may have tried one slot at first. Then the pool has closed before the second try.
  assert.ok(refused === 2 || refused === 3, ends.join());
  assert.equal(ends.filter((end) => end === 'PoolClosedError').length, refused, ends.join());
  await assert.rejects(pool.acquire({ key: 'a' }), PoolClosedError);
  await assertNothingLeft(resource, ...'abc');
});

test('a missing key is refused, and one without a limit', async () => {
  const keyed = poolOf('keyed');
  const refused = (message: RegExp) => ({ name: 'InvalidOptionsError', message });
  await assert.rejects(keyed.acquire(), refused(/^key: expected a key/));
  await assert.rejects(keyed.acquire({ key: '' }), refused(/^key: expected a non-empty string/));
  const plain = new PermitPool(clientOf(temporal, 'plain', { capacity: 1 }));
  await assert.rejects(plain.tryAcquire({ key: 'a' }), refused(/has no perKey/));
});
