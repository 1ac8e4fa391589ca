import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { PermitPool, SemaphoreClient } from '../src/client';
import type { Bench } from './support';

/**
 * Permit pools on one resource, each with 20 callers that call one after the other. With keys, the callers are of so many tenants in turn,
 * each of which may have so many permits.
 */
const CROWDS: Crowd[] = [
  { pools: 10, capacity: 10 },
  { pools: 20, capacity: 10 },
  { pools: 1, capacity: 20, keys: 10, perKey: 2 },
  { pools: 2, capacity: 20, keys: 10, perKey: 2 },
  { pools: 4, capacity: 20, keys: 10, perKey: 2 },
];

interface Crowd {
  pools: number;
  capacity: number;
  keys?: number;
  perKey?: number;
}

const CALLERS = 20;
const CALL_MS = 100;

/** The pools share the slots in the first time, and are measured in the second. */
const SHARE_MS = 12_000;
const MEASURE_MS = 20_000;

export interface CrowdRun extends Crowd {
  /** The ideal is `capacity * 10`. */
  callsPerSecond: number;
  handOversPerSecond: number;
  /** Permits that the pools used, on the average: the least and the most. */
  used: [least: number, most: number];
}

export async function measureCrowds(bench: Bench, say: (line: string) => void): Promise<CrowdRun[]> {
  const runs: CrowdRun[] = [];
  for (const crowd of CROWDS) {
    const run = await measureCrowd(bench, crowd);
    runs.push(run);
    const { pools, capacity, keys, perKey, callsPerSecond, handOversPerSecond, used } = run;
    const [least, most] = used.map((permits) => permits.toFixed(2));
    const ofKeys = keys === undefined ? '' : `, ${perKey} for each of ${keys} keys`;
    say(
      `${pools} pools on ${capacity} slots${ofKeys}: ${callsPerSecond.toFixed(1)} calls/s of ${(capacity * 1_000) / CALL_MS}, ` +
        `${handOversPerSecond.toFixed(1)} hand-overs/s; a pool uses ${least} to ${most} permits`,
    );
  }
  return runs;
}

async function measureCrowd(
  { env, permitQueue: taskQueue }: Bench,
  { pools, capacity, keys, perKey }: Crowd,
): Promise<CrowdRun> {
  const resource = `bench-${randomUUID()}`;
  const stop = new AbortController();
  const made = Array.from({ length: pools }, () => {
    const pool = new PermitPool(new SemaphoreClient(env.client, resource, { capacity, perKey, taskQueue }));
    const seen = { calls: 0, permits: new Set<string>() };
    const call = async (_: unknown, nth: number) => {
      const key = keys === undefined ? undefined : `tenant-${nth % keys}`;
      while (!stop.signal.aborted) {
        await pool.withPermit(
          async ({ runId }) => {
            seen.permits.add(runId);
            await delay(CALL_MS);
          },
          { key },
        );
        seen.calls++;
      }
    };
    return { pool, seen, callers: Array.from({ length: CALLERS }, call) };
  });
  const count = () => made.map(({ seen: { calls, permits } }) => ({ calls, permits: permits.size }));
  await delay(SHARE_MS);
  const before = count();
  const fromMs = performance.now();
  await delay(MEASURE_MS);
  const seconds = (performance.now() - fromMs) / 1_000;
  const after = count();
  const since = (what: 'calls' | 'permits') => after.map((it, n) => it[what] - (before[n]?.[what] ?? 0));
  const used = since('calls').map((calls) => (calls * CALL_MS) / 1_000 / seconds);
  stop.abort();
  await Promise.all(made.flatMap(({ callers }) => callers));
  await Promise.all(made.map(({ pool }) => pool.close()));
  return {
    pools,
    capacity,
    keys,
    perKey,
    callsPerSecond: sum(since('calls')) / seconds,
    handOversPerSecond: sum(since('permits')) / seconds,
    used: [Math.min(...used), Math.max(...used)],
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
