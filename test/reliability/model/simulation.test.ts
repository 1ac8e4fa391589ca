import assert from 'node:assert/strict';
import { test } from 'node:test';
import { simulatePools } from './simulation/pools';
import { simulate } from './simulation/simulate';

// `SIMULATION_SEED=17 pnpm test:unit simulation` runs that one; what it has done stands in the error, or is printed.
const { SIMULATION_RUNS = '50', SIMULATION_SEED } = process.env;
const first = Number(SIMULATION_SEED ?? 1);
const last = SIMULATION_SEED === undefined ? Number(SIMULATION_RUNS) : first;

test(`the whole by seed ${first} to ${last}: faults or not, all who live are served, and nothing is left`, async (t) => {
  const sinceMs = performance.now();
  let [served, longestIdleMs] = [0, 0];
  for (let seed = first; seed <= last; seed++) {
    const told = await simulate(seed);
    served += told.served;
    longestIdleMs = Math.max(longestIdleMs, told.longestIdleMs);
    if (SIMULATION_SEED !== undefined) t.diagnostic(told.story.join('\n'));
  }
  assert.ok(served > 0);
  const seconds = ((performance.now() - sinceMs) / 1_000).toFixed(1);
  t.diagnostic(`${served} acquires, the longest idle slot ${longestIdleMs / 1_000} s; ${seconds} s`);
});

test('permit pools under constant load: each has its share, and where that divides, hand-overs stop', async (t) => {
  let least = 1;
  // A seed of these takes a dozen times as long.
  const most = SIMULATION_SEED === undefined ? Math.max(6, last / 50) : first;
  for (let seed = first; seed <= most; seed++) least = Math.min(least, (await simulatePools(seed)).used);
  t.diagnostic(`at least ${Math.round(100 * least)} % of the permits' time is used`);
});
