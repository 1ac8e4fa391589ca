import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReportedHold } from '../scripts/support/holder-intervals';
import { type Permit, SemaphoreClient, withPermits } from '../src/client';
import { accumulatorResource } from '../src/shared/key-pool';
import { assertNoPermitLeft, assertSafe, useTemporal } from './support/temporal';

const temporal = useTemporal();

const HOLD_MS = 50;

function clientOf(resource: string, capacity: number): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue: temporal.taskQueue, lease: '1 minute' });
}

/** Holds the permits for a moment, and reports when. */
async function held(permits: readonly Permit[], reports: Map<string, ReportedHold[]>): Promise<void> {
  const fromMs = Date.now();
  await delay(HOLD_MS);
  const toMs = Date.now();
  for (const { resource, runId } of permits) reports.get(resource)?.push({ runId, fromMs, toMs });
}

test('60 s: 30 callers of [a, b], 30 of [b, a] and 10 single ones neither block each other nor starve', async () => {
  const [a, b] = [temporal.resource('a'), temporal.resource('b')];
  const [one, other] = [clientOf(a, 3), clientOf(b, 4)];
  const reports = new Map<string, ReportedHold[]>([a, b].map((resource) => [resource, []]));
  const untilMs = Date.now() + 60_000;
  const served: number[] = [];
  let longestMs = 0;
  const loop = async (step: () => Promise<void>) => {
    let count = 0;
    do {
      const sinceMs = Date.now();
      await step();
      longestMs = Math.max(longestMs, Date.now() - sinceMs);
      count++;
    } while (Date.now() < untilMs);
    served.push(count);
  };
  const pair = (first: SemaphoreClient, second: SemaphoreClient) =>
    loop(async () => await withPermits([first, second], async (permits) => await held(permits, reports)));
  const single = (pool: SemaphoreClient) =>
    loop(async () => await pool.withPermit(async (permit) => await held([permit], reports)));
  await Promise.all([
    ...Array.from({ length: 30 }, () => pair(one, other)),
    ...Array.from({ length: 30 }, () => pair(other, one)),
    ...Array.from({ length: 5 }, () => single(one)),
    ...Array.from({ length: 5 }, () => single(other)),
  ]);
  const total = served.reduce((sum, count) => sum + count);
  console.log(JSON.stringify({ callers: served.length, holds: total, longestMs, fewest: Math.min(...served) }));
  assert.equal(served.length, 70);
  await assertSafe(temporal.client, a, 3, reports.get(a));
  await assertSafe(temporal.client, b, 4, reports.get(b));
});

test('60 callers of 1 to 4 permits on capacity 4, a third of them aborted: all others are served, and none is left', async () => {
  const resource = temporal.resource('many');
  const pool = clientOf(resource, 4);
  const reports = new Map<string, ReportedHold[]>([[resource, []]]);
  const longestMs: Record<number, number> = {};
  let aborted = 0;
  const caller = async (index: number) => {
    const size = 1 + (index % 4);
    const stop = new AbortController();
    if (index % 3 === 0) setTimeout(() => stop.abort(), 500 + index * 100).unref();
    const sinceMs = Date.now();
    try {
      await pool.withPermits(
        size,
        async (permits) => {
          assert.equal(new Set(permits.map(({ slot }) => slot)).size, size);
          longestMs[size] = Math.max(longestMs[size] ?? 0, Date.now() - sinceMs);
          await held(permits, reports);
        },
        { signal: stop.signal },
      );
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      aborted++;
    }
  };
  await Promise.all(Array.from({ length: 60 }, (_, index) => caller(index)));
  console.log(JSON.stringify({ longestMs, aborted }));
  await assertNoPermitLeft(temporal.client, accumulatorResource(resource));
  await assertSafe(temporal.client, resource, 4, reports.get(resource));
});
