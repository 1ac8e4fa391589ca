import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from 'pg';
import { FencingToken, type PostgresClient, PostgresFence, StaleTokenError } from '@/fencing';
import { usePostgres } from '../support/postgres';
import { SteppedClient } from '../support/stepped-client';
import { runIds } from '../support/tokens';

/** What each transaction asks of the database: BEGIN, the admission, the write, and COMMIT. */
const STEPS = 4;
const [BEFORE = '', OLD = '', NEW = ''] = runIds(3);

const fence = new PostgresFence('ledger', { table: 'interleaved_fence' });
let old: Client;
let next: Client;
let watcher: Client;

/** The moment of each admission, by the server's clock: an AFTER trigger runs when the row is locked. */
const RECORD_ADMISSIONS = `
  CREATE TABLE admissions (slot text, run_id uuid, at timestamptz);
  CREATE FUNCTION record_admission() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO admissions VALUES (NEW.slot, NEW.run_id, clock_timestamp());
      RETURN NULL;
    END $$;
  CREATE TRIGGER record_admission AFTER INSERT OR UPDATE ON interleaved_fence
    FOR EACH ROW EXECUTE FUNCTION record_admission()`;

usePostgres(async (postgres) => {
  [old, next, watcher] = await Promise.all([postgres.connect(), postgres.connect(), postgres.connect()]);
  await fence.migrate(watcher);
  await watcher.query('CREATE TABLE interleaved (slot text, run_id uuid)');
  await watcher.query(RECORD_ADMISSIONS);
});

/** Every order in which the `a` and `b` steps of two transactions can follow each other. */
function interleavings(a: number, b: number): string[] {
  if (a === 0 || b === 0) return ['O'.repeat(a) + 'N'.repeat(b)];
  return [...interleavings(a - 1, b).map((rest) => `O${rest}`), ...interleavings(a, b - 1).map((rest) => `N${rest}`)];
}

async function write(client: PostgresClient, slot: string, runId: string): Promise<void> {
  await fence.transaction(client, { resource: 'ledger', slot, runId }, async (transaction) => {
    await transaction.client.query('INSERT INTO interleaved VALUES ($1, $2)', [slot, runId]);
  });
}

/** Runs one interleaving, and says whether the old holder was refused. */
async function oldRefused(order: string, slot: string): Promise<boolean> {
  const sides = { O: new SteppedClient(old, watcher), N: new SteppedClient(next, watcher) };
  const ends = Promise.allSettled([write(sides.O, slot, OLD), write(sides.N, slot, NEW)]);
  // A step that waits for a lock is left waiting while the other side goes on, and its own next steps come at the end.
  for (const side of order) await sides[side as 'O' | 'N'].step();
  sides.O.run();
  sides.N.run();
  const [oldEnd, newEnd] = await ends;
  assert.equal(newEnd.status, 'fulfilled', `${order}: the newer holder was kept out`);
  if (oldEnd.status === 'fulfilled') return false;
  assert.ok(oldEnd.reason instanceof StaleTokenError, String(oldEnd.reason));
  assert.deepEqual(oldEnd.reason.newest, FencingToken.from({ resource: 'ledger', slot, runId: NEW }));
  return true;
}

async function count(sql: string, ...values: string[]): Promise<number> {
  const { rows } = await watcher.query<{ count: string }>(`SELECT count(*) FROM ${sql}`, values);
  return Number(rows[0]?.count);
}

for (const [what, start] of [
  ['nobody', undefined],
  ['an earlier holder', BEFORE],
  ['the old holder itself', OLD],
] as const) {
  test(`in every interleaving the old one commits before the new one is admitted, or never (before: ${what})`, async (t) => {
    const all = interleavings(STEPS, STEPS);
    let refused = 0;
    for (const order of all) {
      const slot = `${what} ${order}`;
      if (start) await write(watcher, slot, start);
      const written = await count('interleaved WHERE slot = $1 AND run_id = $2', slot, OLD);
      const wasRefused = await oldRefused(order, slot);
      if (wasRefused) refused++;
      const more = (await count('interleaved WHERE slot = $1 AND run_id = $2', slot, OLD)) - written;
      assert.equal(more, wasRefused ? 0 : 1, order);
      const late = await count(
        `interleaved AS written JOIN admissions AS newer USING (slot) WHERE slot = $1
           AND written.run_id < newer.run_id AND pg_xact_commit_timestamp(written.xmin) >= newer.at`,
        slot,
      );
      assert.equal(late, 0, `${order}: the old one committed after the new one was admitted`);
    }
    assert.ok(refused > 0 && refused < all.length);
    t.diagnostic(`${all.length} interleavings: refused in ${refused}, first in ${all.length - refused}`);
  });
}
