import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  FencingToken,
  MalformedTokenError,
  PostgresFence,
  StaleTokenError,
  TransactionAbortedError,
  UnorderedRunIdError,
  WrongResourceError,
} from '@/fencing';
import { migrationOf } from '@/fencing/postgres-fence';
import { usePostgres } from '../support/postgres';
import { assertAttempts, runIds } from '../support/tokens';

const postgres = usePostgres();
let tables = 0;

async function newFence(resource = 'ledger', options: { idleTimeoutMs?: number } = {}): Promise<PostgresFence> {
  const fence = new PostgresFence(resource, { table: `fence_${tables++}`, ...options });
  await fence.migrate(postgres.pool);
  return fence;
}

function tokens(count: number, slot = '0', resource = 'ledger'): FencingToken[] {
  return runIds(count).map((runId) => FencingToken.from({ resource, slot, runId }));
}

test('ten connections that migrate at once make one table, and migrating again changes nothing', async () => {
  const fence = new PostgresFence('ledger');
  const clients = await Promise.all(Array.from({ length: 10 }, () => postgres.connect()));
  await Promise.all(clients.map((client) => fence.migrate(client)));
  const [token] = tokens(1);
  assert.ok(token);
  await fence.transaction(postgres.pool, token, async () => undefined);
  await fence.migrate(postgres.pool);
  const { rows } = await postgres.pool.query(
    `SELECT run_id, epoch, obj_description('permit_fence'::regclass) AS comment FROM permit_fence`,
  );
  assert.deepEqual(rows, [{ run_id: token.runId, epoch: '1', comment: 'temporal-semaphore fence, version 2' }]);
});

test('a migration takes part in the transaction in which it is done', async () => {
  const fence = new PostgresFence('ledger', { table: 'public.rolled_back' });
  const client = await postgres.connect();
  await client.query('BEGIN');
  await fence.migrate(client);
  await client.query('ROLLBACK');
  const { rows } = await client.query(`SELECT to_regclass('rolled_back') AS found`);
  assert.deepEqual(rows, [{ found: null }]);
});

test('a table of a newer version, or of somebody else, is left alone with a clear error', async () => {
  await postgres.pool.query(`CREATE TABLE newer (); COMMENT ON TABLE newer IS 'temporal-semaphore fence, version 99'`);
  await assert.rejects(
    new PostgresFence('ledger', { table: 'newer' }).migrate(postgres.pool),
    /version 99, made by a newer temporal-semaphore/,
  );
  await postgres.pool.query('CREATE TABLE foreign_one ()');
  await assert.rejects(new PostgresFence('ledger', { table: 'foreign_one' }).migrate(postgres.pool), /already exists/);
});

test('epochs count the holders of each slot, and a stale one is refused with both tokens', async () => {
  const fence = await newFence();
  const [first, second, third] = tokens(3);
  const [other] = tokens(1, 'gpu-ä 💡');
  assert.ok(first && second && third && other);
  const epochs: number[] = [];
  for (const token of [first, first, third, other, third]) {
    epochs.push(await fence.transaction(postgres.pool, token, async ({ epoch }) => epoch));
  }
  assert.deepEqual(epochs, [1, 1, 2, 1, 2]);
  let ran = false;
  await assert.rejects(
    fence.transaction(postgres.pool, String(second), async () => {
      ran = true;
    }),
    (error) => {
      assert.ok(error instanceof StaleTokenError);
      assert.deepEqual([error.token, error.newest], [second, third]);
      return true;
    },
  );
  assert.equal(ran, false);
});

test('attempts and activities of one holder are told apart, in one epoch; a row of version 1 stays comparable', async () => {
  const [before, holder, next] = tokens(3) as [FencingToken, FencingToken, FencingToken];
  await postgres.pool.query(migrationOf('"of_version_1"', 1));
  const fence = new PostgresFence('ledger', { table: 'of_version_1' });
  await postgres.pool.query(`INSERT INTO of_version_1 VALUES ('ledger', '0', $1, 7)`, [holder.runId]);
  await fence.migrate(postgres.pool);
  const guard = fence.within(postgres.pool);
  await assert.rejects(guard.admit(before.of({ scheduledMs: 9, attempt: 1 })), StaleTokenError);
  assert.equal((await guard.admit(holder.of({ scheduledMs: 9, attempt: 1 }))).epoch, 7);
  assert.equal((await guard.admit(next)).epoch, 8);
  await assertAttempts(guard);
});

test('what is not a token of this resource never reaches the database', async () => {
  const fence = await newFence();
  const refused = async (token: string, error: new (...args: never[]) => Error) =>
    await assert.rejects(
      fence.transaction({ ...postgres.pool, totalCount: 0, connect: assert.fail }, token, async () => undefined),
      error,
    );
  await refused('ledger/0', MalformedTokenError);
  await refused(`other/0/${runIds(1)[0]}`, WrongResourceError);
  await refused('ledger/0/9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d', UnorderedRunIdError);
});

test("a failed transaction takes its admission back with the user's writes", async () => {
  const fence = await newFence();
  const [old, next] = tokens(2);
  assert.ok(old && next);
  await assert.rejects(
    fence.transaction(postgres.pool, next, async ({ epoch, client }) => {
      assert.equal(epoch, 1);
      await client.query('CREATE TABLE written_in_vain ()');
      throw new Error('as asked');
    }),
    /as asked/,
  );
  assert.deepEqual((await postgres.pool.query(`SELECT to_regclass('written_in_vain') AS found`)).rows, [
    { found: null },
  ]);
  await fence.transaction(postgres.pool, old, async ({ epoch }) => assert.equal(epoch, 1));
});

test('a transaction that sets its time zone and date style is fenced to its end, and commits', async () => {
  const fence = await newFence();
  const [token] = tokens(1);
  assert.ok(token);
  for (const setting of ["SET LOCAL TIME ZONE 'Asia/Tokyo'", "SET LOCAL datestyle = 'SQL, DMY'"]) {
    await fence.transaction(postgres.pool, token, async ({ client }) => void (await client.query(setting)));
  }
});

test('a swallowed failure of a statement is told, for Postgres commits nothing then', async () => {
  const fence = await newFence();
  const [token] = tokens(1);
  assert.ok(token);
  await assert.rejects(
    fence.transaction(postgres.pool, token, async ({ client }) => {
      await client.query('SELECT 1/0').catch(() => undefined);
    }),
    TransactionAbortedError,
  );
});

test('the guard works inside a transaction of the user, and with a connection instead of a pool', async () => {
  const fence = await newFence();
  const [old, next] = tokens(2);
  assert.ok(old && next);
  const client = await postgres.connect();
  await client.query('BEGIN');
  assert.deepEqual(await fence.within(client).admit(next), { token: next, epoch: 1 });
  await client.query('COMMIT');
  await assert.rejects(fence.within(client).admit(old), StaleTokenError);
  await fence.transaction(client, next, async ({ epoch }) => assert.equal(epoch, 1));
});

test('ROLLBACK TO a savepoint undoes an admission that came after it, and admitting again fences what follows', async () => {
  const fence = await newFence();
  const [old, next] = tokens(2);
  assert.ok(old && next);
  const client = await postgres.connect();
  await client.query('BEGIN');
  await client.query('SAVEPOINT before');
  await fence.within(client).admit(next);
  await client.query('ROLLBACK TO before');
  // Nothing is locked any more, and the older token passes.
  await fence.transaction(postgres.pool, old, async ({ epoch }) => assert.equal(epoch, 1));
  await fence.within(client).admit(next);
  await client.query('SAVEPOINT after');
  await client.query('ROLLBACK TO after');
  await client.query('COMMIT');
  await assert.rejects(fence.within(client).admit(old), StaleTokenError);
});

test('a holder that is silent inside a transaction does not keep its successor waiting for ever', async () => {
  const fence = await newFence('ledger', { idleTimeoutMs: 1_500 });
  const [old, next] = tokens(2);
  assert.ok(old && next);
  await assert.rejects(
    fence.transaction(postgres.pool, old, async ({ client }) => {
      await fence.transaction(postgres.pool, next, async () => undefined);
      await client.query('SELECT 1');
    }),
    ({ cause }) => /idle-in-transaction timeout/.test(cause.message),
  );
  await assert.rejects(
    fence.transaction(postgres.pool, old, async () => undefined),
    StaleTokenError,
  );
});

test('the SQL that docs/fencing.md gives to other languages agrees with the fence', async () => {
  const fence = new PostgresFence('ledger', { table: 'permit_fence' });
  await fence.migrate(postgres.pool);
  const guide = await readFile('docs/fencing.md', 'utf8');
  const sql = guide.match(/```sql\n(INSERT INTO permit_fence[^`]+)```/)?.[1];
  assert.ok(sql);
  const slot = 'of another language';
  const [old, next] = tokens(2, slot);
  assert.ok(old && next);
  const admit = async ({ runId }: FencingToken) =>
    (await postgres.pool.query(sql, ['ledger', slot, runId])).rows.map(({ epoch }) => Number(epoch));
  assert.deepEqual(await admit(old), [1]);
  await fence.transaction(postgres.pool, next, async ({ epoch }) => assert.equal(epoch, 2));
  assert.deepEqual(await admit(next), [2]);
  assert.deepEqual(await admit(old), []);
});
