import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Pool, type PoolConfig } from 'pg';
import { FencingToken, MixedTransactionsError, PostgresFence, TransactionOverError } from '@/fencing';
import { usePostgres } from '../support/postgres';
import { runIds } from '../support/tokens';

/** A connection that goes wrong must lose nobody's writes: neither the holder's own, nor those of others on the pool. */
const fence = new PostgresFence('ledger');
const postgres = usePostgres(async (started) => {
  await fence.migrate(started.pool);
  await started.pool.query('CREATE TABLE written (line text)');
});

const pools: Pool[] = [];
after(async () => {
  await Promise.allSettled(pools.map(async (pool) => await pool.end()));
});

/** A pool of one connection, so that the next query gets the very connection that the one before has left. */
function onePool(config: PoolConfig): Pool {
  const pool = new Pool({ ...postgres.connection, max: 1, ...config });
  pool.on('error', () => undefined);
  pools.push(pool);
  return pool;
}

function tokens(count: number, slot: string): FencingToken[] {
  return runIds(count).map((runId) => FencingToken.from({ resource: 'ledger', slot, runId }));
}

async function found(line: string): Promise<number> {
  const { rows } = await postgres.pool.query('SELECT FROM written WHERE line = $1', [line]);
  return rows.length;
}

async function assertOthersAreSafe(pool: Pool, line: string): Promise<void> {
  await pool.query('INSERT INTO written VALUES ($1)', [line]);
  assert.equal(await found(line), 1, 'an unrelated INSERT answered ok, and its row is not there');
}

test('after an admission that took longer than query_timeout, the pool gets no open transaction back', async () => {
  const [old, next] = tokens(2, 'slow');
  assert.ok(old && next);
  const pool = onePool({ query_timeout: 2_000 });
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let begun = () => {};
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const slow = fence.transaction(postgres.pool, old, async () => {
    begun();
    await finished;
  });
  await hasBegun;
  await assert.rejects(
    fence.transaction(pool, next, async () => undefined),
    /timeout/,
  );
  finish();
  await slow;
  await assertOthersAreSafe(pool, 'paid beside a slow one');
  // Its connection was ended, so its admission does not linger either.
  await fence.transaction(postgres.pool, next, async () => undefined);
});

test('after a BEGIN whose answer did not come, the pool gets no open transaction back', async () => {
  const [token] = tokens(1, 'stalled');
  assert.ok(token);
  const sockets: Socket[] = [];
  const proxy = createServer((client) => {
    const upstream = connect(`${postgres.connection.host}/.s.PGSQL.5432`);
    sockets.push(client);
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
    client.on('close', () => upstream.destroy());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const pool = onePool({ host: '127.0.0.1', port: (proxy.address() as AddressInfo).port, query_timeout: 2_000 });
  await pool.query('SELECT 1');
  for (const socket of sockets) socket.pause(); // what the pool sends stays here for a while
  await assert.rejects(
    fence.transaction(pool, token, async () => undefined),
    /timeout/,
  );
  for (const socket of sockets) socket.resume();
  await delay(100);
  await assertOthersAreSafe(pool, 'paid after a stall');
  await Promise.all([pool.end(), new Promise((closed) => proxy.close(closed))]);
});

test('a single connection that could not roll back is ended, and takes no more writes', async () => {
  const [old, next] = tokens(2, 'single');
  assert.ok(old && next);
  const client = await onePool({ query_timeout: 2_000 }).connect();
  await fence.transaction(postgres.pool, old, async () => {
    await assert.rejects(
      fence.transaction(client, next, async () => undefined),
      /timeout/,
    );
  });
  await assert.rejects(client.query(`INSERT INTO written VALUES ('on an ended connection')`));
  client.release();
});

test('a transaction is refused on a connection that is in one: its end would unlock the slot of the outer one', async () => {
  const [first] = tokens(1, 'outer');
  const [second] = tokens(1, 'inner');
  assert.ok(first && second);
  await fence.transaction(postgres.pool, first, async ({ client }) => {
    await assert.rejects(
      fence.transaction(client, second, async () => undefined),
      MixedTransactionsError,
    );
    // The outer one has suffered nothing, and admits the other slot inside itself.
    await fence.within(client).admit(second);
    await client.query(`INSERT INTO written VALUES ('under two permits')`);
    assert.equal(await found('under two permits'), 0);
  });
  assert.equal(await found('under two permits'), 1);

  const own = await postgres.connect();
  await own.query(`BEGIN; INSERT INTO written VALUES ('of the user')`);
  await assert.rejects(
    fence.transaction(own, first, async () => undefined),
    MixedTransactionsError,
  );
  await own.query('COMMIT');
  assert.equal(await found('of the user'), 1);
});

test('of two transactions at once on one connection, one runs and the other is refused', async () => {
  const client = await postgres.connect();
  const ends = await Promise.allSettled(
    ['a', 'b'].map(async (slot) => {
      const [token] = tokens(1, `shared ${slot}`);
      assert.ok(token);
      await fence.transaction(client, token, async (transaction) => {
        await delay(20);
        await transaction.client.query('INSERT INTO written VALUES ($1)', [`shared ${slot}`]);
      });
    }),
  );
  assert.deepEqual(
    ends.map((end) => (end.status === 'rejected' ? end.reason.name : 'done')),
    ['done', 'MixedTransactionsError'],
  );
  assert.deepEqual([await found('shared a'), await found('shared b')], [1, 0]);
});

test('a connection that came with an open transaction does not go back to the pool', async () => {
  const [token] = tokens(1, 'dirty');
  assert.ok(token);
  const pool = onePool({});
  const careless = await pool.connect();
  await careless.query('BEGIN');
  careless.release();
  await assert.rejects(
    fence.transaction(pool, token, async () => undefined),
    MixedTransactionsError,
  );
  await fence.transaction(pool, token, async ({ epoch }) => assert.equal(epoch, 1));
});

test('what goes on after the function has ended writes no more, for the slot is unlocked', async () => {
  const [token] = tokens(1, 'late');
  assert.ok(token);
  let late: Promise<unknown[]> | undefined;
  const pool = onePool({});
  await assert.rejects(
    fence.transaction(pool, token, async ({ client }) => {
      const sql = `INSERT INTO written VALUES ('too late')`;
      // As a driver does it: by a promise that the caller catches, or by a callback.
      const query = (done?: (error: unknown) => void) =>
        (client.query as (...args: unknown[]) => Promise<unknown>)(sql, done);
      late = delay(50).then(() =>
        Promise.all([query().catch((error) => error), new Promise((resolve) => void query(resolve))]),
      );
      late.catch(() => undefined);
      throw new Error('given up');
    }),
    /given up/,
  );
  for (const error of (await late) ?? []) assert.ok(error instanceof TransactionOverError, String(error));
  await assertOthersAreSafe(pool, 'after a late one');
  assert.equal(await found('too late'), 0);
});

test('a function that ends the transaction itself is told, since its next writes were not fenced', async () => {
  const [token] = tokens(1, 'ended');
  assert.ok(token);
  for (const end of ['COMMIT', 'ROLLBACK', 'COMMIT; BEGIN']) {
    await assert.rejects(
      fence.transaction(postgres.pool, token, async ({ client }) => {
        await client.query(end);
      }),
      MixedTransactionsError,
      end,
    );
  }
});

test('an idle timeout that Postgres can not take is refused before anything is sent', () => {
  for (const idleTimeoutMs of [2 ** 31, 30 * 86_400_000, 0, -1, 1.5, Number.NaN]) {
    assert.throws(() => new PostgresFence('ledger', { idleTimeoutMs }), /idleTimeoutMs: expected a whole number of/);
  }
  new PostgresFence('ledger', { idleTimeoutMs: 2 ** 31 - 1 });
});
