import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { PostgresFence } from '@/fencing';
import { endWithTests } from '../support/children';
import { type HolderOptions, type HolderReport, LEDGERS } from '../support/ledger-holder';
import { usePostgres } from '../support/postgres';
import { useTemporal } from '../support/temporal';

const SLOTS = ['a', 'b', 'c'];
const LEASE_MS = 1_000;
const PROCESSES = 10;
const STALE_WANTED = 5;
/** On a busy machine, the processes get to few writes: so the test goes on until enough of them were stale. */
const MOST_MS = 120_000;

const temporal = useTemporal();
const postgres = usePostgres();
const holders: ChildProcess[] = [];

async function startHolder(options: HolderOptions): Promise<ChildProcess> {
  const holder = endWithTests(
    fork(require.resolve('../support/ledger-holder'), [JSON.stringify(options)], { execArgv: ['--import', 'tsx'] }),
  );
  holders.push(holder);
  await once(holder, 'message');
  return holder;
}

/** Stops and continues processes at random until enough writes without the guard were stale; all run again at the end. */
async function disturb(): Promise<number> {
  const endMs = performance.now() + MOST_MS;
  const stopped = new Map<ChildProcess, Promise<void>>();
  let stops = 0;
  while (performance.now() < endMs && (await staleWrites(LEDGERS.unguarded)).stale < STALE_WANTED) {
    await delay(100 + 600 * Math.random());
    const holder = holders[Math.floor(Math.random() * holders.length)];
    if (!holder || stopped.has(holder)) continue;
    stops++;
    holder.kill('SIGSTOP');
    const continued = delay(500 + 3_500 * Math.random()).then(() => {
      holder.kill('SIGCONT');
      stopped.delete(holder);
    });
    stopped.set(holder, continued);
  }
  await Promise.all(stopped.values());
  return stops;
}

async function endHolder(holder: ChildProcess): Promise<HolderReport> {
  const [said] = await Promise.all([once(holder, 'message'), once(holder, 'exit'), holder.kill('SIGTERM')]);
  assert.equal(holder.exitCode, 0);
  return said[0];
}

/**
 * Writes that were committed after a write of a newer permit of their slot: seen by Postgres's commit times and the run
 * IDs alone, whatever the guard thought.
 */
async function staleWrites(ledger: string): Promise<{ all: number; stale: number }> {
  const { rows } = await postgres.pool.query(`
    SELECT count(*)::int AS all, count(*) FILTER (WHERE run_id < newest)::int AS stale FROM (
      SELECT run_id, max(run_id) OVER (PARTITION BY slot ORDER BY pg_xact_commit_timestamp(xmin)) AS newest
      FROM ${ledger}
    ) AS writes`);
  return rows[0];
}

test(`${PROCESSES} processes, stopped at random: ${STALE_WANTED} stale writes without the guard, none with it`, async (t) => {
  const { address } = temporal.env;
  assert.ok(address);
  const resource = temporal.resource('ledger');
  await new PostgresFence(resource).migrate(postgres.pool);
  for (const ledger of Object.values(LEDGERS)) {
    await postgres.pool.query(`CREATE TABLE ${ledger} (slot text, run_id text COLLATE "C", epoch bigint)`);
  }
  const options = {
    address,
    taskQueue: temporal.taskQueue,
    postgres: postgres.connection,
    resource,
    slots: SLOTS,
    leaseMs: LEASE_MS,
  };
  await Promise.all(Array.from({ length: PROCESSES }, () => startHolder(options)));

  const stops = await disturb();
  const reports = await Promise.all(holders.map(endHolder));
  const sum = (of: (report: HolderReport) => number) => reports.reduce((total, report) => total + of(report), 0);
  const guarded = await staleWrites(LEDGERS.guarded);
  const unguarded = await staleWrites(LEDGERS.unguarded);
  t.diagnostic(`${stops} stops, ${sum(({ held }) => held)} permits held`);
  t.diagnostic(`without the guard: ${unguarded.all} writes, ${unguarded.stale} stale`);
  t.diagnostic(
    `with it: ${guarded.all} writes, ${guarded.stale} stale, ${sum(({ refused }) => refused)} refused, ` +
      `${sum(({ failed }) => failed)} failed otherwise`,
  );

  assert.equal(guarded.stale, 0);
  assert.ok(unguarded.stale >= STALE_WANTED, 'the control: without the guard, stale writes were expected');
  assert.ok(sum(({ refused }) => refused) > 0);
  assert.equal(
    guarded.all,
    sum(({ written }) => written),
  );
  const { rows } = await postgres.pool.query(
    `SELECT slot, epoch FROM ${LEDGERS.guarded} GROUP BY slot, epoch HAVING count(DISTINCT run_id) > 1`,
  );
  assert.deepEqual(rows, [], 'an epoch belongs to one holder');
});
