import assert from 'node:assert/strict';
import { type ChaosVerdict, judge } from './checker';
import type { ChaosRecord } from './record';

export const POOL = 'pool';
export const LIMIT_MS = 10_000;

/**
 * Two clients hold slot 0 one after the other, from 1,000 to 2,000 and from 3,000 to 4,000 ms, and a third holds slot 1 from 1,500
 * to 3,500 ms. Nothing is wrong.
 */
export function sound(): ChaosRecord {
  const hold = (acquire: string, slot: string, runId: string, askedMs: number, beganMs: number, endedMs: number) => ({
    acquire: {
      id: acquire,
      resource: POOL,
      actor: 'clients',
      askedMs,
      settledMs: beganMs,
      outcome: 'granted' as const,
    },
    body: { acquire, resource: POOL, slot, runId, beganMs, endedMs },
    permit: { resource: POOL, slot, runId, startedMs: beganMs - 50, closedMs: endedMs + 50, drained: false },
    write: { atMs: beganMs + 100, resource: POOL, slot, runId, admitted: true },
  });
  const holds = [
    hold('one', '0', 'run-1', 900, 1_000, 2_000),
    hold('other', '1', 'run-2', 900, 1_500, 3_500),
    hold('two', '0', 'run-3', 2_500, 3_000, 4_000),
  ];
  return {
    pools: [{ resource: POOL, slots: 2 }],
    permitWorkers: ['permits-1', 'permits-2'],
    acquires: holds.map(({ acquire }) => acquire),
    bodies: holds.map(({ body }) => body),
    permits: holds.map(({ permit }) => permit),
    pauses: [],
    writes: holds.map(({ write }) => write),
    orders: [],
    outages: [],
    notCurrent: [],
    faults: [],
    deaths: [],
    disorder: [],
    turns: 2,
    replayed: 5,
    replayFailures: [],
    leftovers: [],
  };
}

/** The server had paused a permit's run. */
export function pausedPermit(slot: string, runId: string, fromMs: number, toMs: number) {
  return { workflowId: `permit:${POOL}:${slot}`, runId, fromMs, toMs };
}

/** The invariants that a changed record breaks. */
export function broken(change: (record: ChaosRecord) => void): string[] {
  const record = sound();
  change(record);
  return brokenIn(judge(record, LIMIT_MS));
}

export function brokenIn({ invariants }: ChaosVerdict): string[] {
  return invariants.filter(({ violations }) => violations.length > 0).map(({ id }) => id);
}

export function at<T>(items: T[], index: number): T {
  return items[index] ?? assert.fail(`no item ${index}`);
}
