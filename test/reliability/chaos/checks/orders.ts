import { permitId, queueId } from '@/shared/permit-id';
import type { ChaosRecord, PermitRun, Pool } from '../record';
import { Hits } from './hits';
import { covered, type Interval, measure, union, without } from './intervals';
import { liveWaits } from './liveness';
import { CLAIMED_MS, outOfUse, poolNamed } from './out-of-use';

/** An acquirer that tries by itself may win a slot between its holder's release and the queue's claim: docs/operations.md. */
const RACE_MS = 2_000;

/** So soon after the answer, while somebody waits, a slot is no longer kept out of use. */
const BACK_MS = 15_000;

/** A fault of a permit worker may cost a Workflow Task, and so ten seconds until that is tried again. */
const RETRIED_MS = 11_000;

/**
 * O1: a slot that an answered shrink or pause has put out of use is given to nobody, once its holder of before is gone, and the queue has had
 * time to claim it: a paused queue claims nothing, and waiters help themselves.
 */
export function checkOutOfUse(record: ChaosRecord): { checked: number; violations: string[] } {
  const hits = new Hits(record);
  const workers = hits.ofWorkers(RETRIED_MS);
  let checked = 0;
  const violations: string[] = [];
  for (const pool of operated(record)) {
    const paused = hits.paused(queueId(pool.resource));
    const hit = union([...workers, ...paused]);
    for (const slot of allSlots(pool, record)) {
      const { surely } = outOfUse(pool, record, slot);
      const runs = record.permits.filter((permit) => permit.resource === pool.resource && permit.slot === slot);
      for (const permit of runs.filter(({ drained }) => !drained)) {
        const span = surely.find(([fromMs, toMs]) => fromMs < permit.startedMs && permit.startedMs < toMs);
        if (!span) continue;
        checked++;
        const settledMs = measure(without([[span[0], permit.startedMs]], hit));
        if (settledMs > CLAIMED_MS && !wasRaced(permit, runs, paused) && !wasFreed(permit, span, record))
          violations.push(`${told(permit)} was given at ${time(permit.startedMs)}, out of use since ${time(span[0])}`);
      }
    }
  }
  return { checked, violations };
}

/** O2: while somebody waits, no slot is kept out of use that an answered order has put into use. */
export function checkBackInUse(record: ChaosRecord): { checked: number; violations: string[] } {
  const hits = new Hits(record);
  const workers = hits.ofWorkers(RETRIED_MS);
  const drained = record.permits.filter((permit) => permit.drained);
  const violations = record.pools.flatMap((pool) => {
    // A paused queue ends no claim of its own.
    const waited = without(liveWaits(pool, record), union([...workers, ...hits.paused(queueId(pool.resource))]));
    return drained.flatMap((permit) => {
      if (permit.resource !== pool.resource) return [];
      const paused = hits.paused(permitId(permit), permit.runId);
      const wanted = without(waited, union([...outOfUse(pool, record, permit.slot).maybe, ...paused]));
      const keptMs = covered([permit.startedMs, permit.closedMs], wanted);
      return keptMs > BACK_MS
        ? [`${told(permit)} was kept out of use for ${Math.round(keptMs)} ms while somebody waited for it`]
        : [];
    });
  });
  return { checked: drained.length, violations };
}

/** O3: an answered revoke has ended the hold that it named. */
export function checkRevoked({ orders, permits }: ChaosRecord): { checked: number; violations: string[] } {
  const runs = new Map(permits.map((permit) => [permit.runId, permit]));
  const answered = orders.filter(({ kind, answeredMs }) => kind === 'revoke' && answeredMs !== undefined);
  const violations = answered.flatMap(({ runId = '', answeredMs = 0 }) => {
    const permit = runs.get(runId);
    return permit && permit.closedMs > answeredMs
      ? [`${told(permit)} was revoked by ${time(answeredMs)}, and ended at ${time(permit.closedMs)}`]
      : [];
  });
  return { checked: answered.length, violations };
}

/** It was free for a moment only, and its holder came by itself. */
function wasRaced({ startedMs, byTurn }: PermitRun, runs: readonly PermitRun[], paused: Interval[]): boolean {
  return !byTurn && runs.some(({ closedMs }) => closedMs <= startedMs && freeMs(closedMs, startedMs, paused) < RACE_MS);
}

/** How long the queue could have claimed it. */
function freeMs(fromMs: number, toMs: number, paused: Interval[]): number {
  return measure(without([[fromMs, toMs]], paused));
}

/** Somebody has terminated the queue's claim, which finds that out in twenty minutes. */
function wasFreed(permit: PermitRun, [fromMs]: Interval, { faults }: ChaosRecord): boolean {
  return faults.some(
    ({ kind, target, atMs }) =>
      kind !== 'pause-workflow' && target === permitId(permit) && atMs > fromMs && atMs < permit.startedMs,
  );
}

function operated(record: ChaosRecord): Pool[] {
  const resources = new Set(record.orders.map(({ resource }) => resource));
  return [...resources].flatMap((resource) => poolNamed(resource, record) ?? []);
}

function allSlots({ resource }: Pool, { permits }: ChaosRecord): Set<string> {
  return new Set(permits.filter((permit) => permit.resource === resource).map(({ slot }) => slot));
}

function told({ resource, slot, runId }: PermitRun): string {
  return `${resource}/${slot}/${runId}`;
}

function time(ms: number): string {
  return Number.isFinite(ms) ? new Date(ms).toISOString().slice(11, 23) : 'the end';
}
