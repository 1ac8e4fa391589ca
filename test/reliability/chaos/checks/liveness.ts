import { permitId } from '@/shared/permit-id';
import { slotNames } from '@/shared/slots';
import type { Acquire, ChaosRecord, Outcome, Pool } from '../record';
import { allDown, Hits, ofScope, pausedTimes } from './hits';
import { covered, type Interval, union, without } from './intervals';
import { outOfUse } from './out-of-use';

/** A shell command asks when its process has started, which its parent sees seconds before. */
const COMMAND_STARTS_MS = 3_000;

/** A slot that was free while somebody waited. */
export interface Idleness {
  resource: string;
  slot: string;
  fromMs: number;
  idleMs: number;
}

/** L1: no permit runs when all acquirers are gone and the longest lease is over. The histories are read after that. */
export function checkLeaks({ leftovers, permits }: ChaosRecord): string[] {
  const open = permits.filter(({ closedMs }) => closedMs === Number.POSITIVE_INFINITY);
  const left = new Set([...leftovers, ...open.map((permit) => `${permitId(permit)}, run ${permit.runId}`)]);
  return [...left].map((permit) => `${permit} still runs, and nobody holds it`);
}

/** L3: each acquire that lived was served, or ended as its caller had asked. */
export function checkServed({ acquires }: ChaosRecord): string[] {
  return acquires.flatMap((acquire) => {
    const { id, resource, outcome, error } = acquire;
    if (outcome === undefined) return [`${id} still waits for ${resource}`];
    return isFair(outcome, acquire) ? [] : [`${id} of ${resource} ${outcome}: ${error ?? 'nothing says why'}`];
  });
}

/** A server that is away, and a caller that is killed, are no fault of the library's. */
function isFair(outcome: Outcome, { mayTimeOut, mayBeCancelled }: Acquire): boolean {
  switch (outcome) {
    case 'timeout':
    case 'full':
      return mayTimeOut === true;
    case 'cancelled':
      return mayBeCancelled === true;
    default:
      return outcome !== 'failed';
  }
}

/** So long after somebody has begun to wait, and after it was taken, a permit pool has given a permit back. Its permits serve for a second. */
const GIVES_WAY_MS = 15_000;

/** L5: a permit pool that is never idle gives way: it serves nobody under an old permit while somebody else waits for long. */
export function checkGivesWay(record: ChaosRecord): { checked: number; violations: string[] } {
  const { acquires, bodies, permits, pools } = record;
  const callers = new Map(acquires.flatMap((acquire) => (acquire.givesWay ? [[acquire.id, acquire.actor]] : [])));
  const started = new Map(permits.map(({ runId, startedMs }) => [runId, startedMs]));
  const hits = new Hits(record);
  const busy = hits.ofWorkers(GIVES_WAY_MS);
  const others = { ...record, acquires: acquires.filter(({ pooled }) => !pooled) };
  const waits = new Map(pools.map((pool) => [pool.resource, liveWaitsEach(pool, others)]));
  const calls = bodies.filter(({ acquire }) => callers.has(acquire));
  const late = calls.filter(({ acquire, resource, runId, beganMs }) => {
    const sinceMs = beganMs - GIVES_WAY_MS;
    if ((started.get(runId) ?? beganMs) > sinceMs) return false;
    const hit = union([...busy, ...hits.of(callers.get(acquire) ?? '')]);
    if (covered([sinceMs, beganMs], hit) > 0) return false;
    return waits.get(resource)?.some(([fromMs, toMs]) => fromMs < sinceMs && toMs > beganMs);
  });
  const told = late.map(
    ({ acquire, resource, slot, runId }) =>
      `${acquire} of a permit pool began under ${resource}/${slot}/${runId}, which was old, while somebody else waited`,
  );
  return { checked: calls.length, violations: told };
}

/** L2: slots that were free for longer than `limitMs` while a live waiter waited and nothing was down that all need. */
export function checkIdle(record: ChaosRecord, limitMs: number): string[] {
  return idleness(record)
    .filter(({ idleMs }) => idleMs > limitMs)
    .map(({ resource, slot, fromMs, idleMs }) => {
      return `${resource}/${slot} was free from ${new Date(fromMs).toISOString().slice(11, 23)} for ${Math.round(idleMs)} ms`;
    });
}

/**
 * How long each deployed slot was free between two permits while a live waiter waited, longest first. A slot that the queue keeps out of
 * use is free, but for the times in which an operator's order may want that: a queue that is gone keeps it for nobody.
 */
export function idleness(record: ChaosRecord): Idleness[] {
  const down = allDown(record);
  const found = record.pools.flatMap((pool) => {
    const waited = without(liveWaits(pool, record), down);
    return slotNames(pool.slots).flatMap((slot) => {
      const wanted = without(waited, outOfUse(pool, record, slot).maybe);
      return freeTimes(pool, slot, record).map(([fromMs, toMs]) => {
        return { resource: pool.resource, slot, fromMs, idleMs: covered([fromMs, toMs], wanted) };
      });
    });
  });
  return found.sort((a, b) => b.idleMs - a.idleMs);
}

/** When somebody waited whose own process was up, and whose own Workflow was not paused. */
export function liveWaits(pool: Pool, record: ChaosRecord): Interval[] {
  return union(liveWaitsEach(pool, record));
}

function liveWaitsEach({ resource }: Pool, record: ChaosRecord): Interval[] {
  const { acquires, outages } = record;
  const downs = new Map<string, Interval[]>();
  return acquires.flatMap((acquire): Interval[] => {
    if (acquire.resource !== resource || acquire.set !== undefined || acquire.key !== undefined) return [];
    const { actor, settledMs = Number.POSITIVE_INFINITY } = acquire;
    const down = downs.get(actor) ?? union(ofScope(outages, actor));
    downs.set(actor, down);
    return without([[asksMs(acquire), settledMs]], union([...down, ...pausedTimes(record, acquire.id)]));
  });
}

function asksMs({ actor, askedMs }: Acquire): number {
  return actor.startsWith('command') ? askedMs + COMMAND_STARTS_MS : askedMs;
}

function freeTimes({ resource }: Pool, slot: string, { permits, acquires }: ChaosRecord): Interval[] {
  const runs = permits.filter((permit) => permit.resource === resource && permit.slot === slot && !permit.drained);
  runs.sort((a, b) => a.startedMs - b.startedMs);
  let freeMs = Math.min(...acquires.map(({ askedMs }) => askedMs));
  const lastMs = Math.max(...acquires.map(({ settledMs }) => settledMs ?? 0));
  const free: Interval[] = [];
  for (const { startedMs, closedMs } of runs) {
    if (startedMs > freeMs) free.push([freeMs, startedMs]);
    freeMs = Math.max(freeMs, closedMs);
  }
  if (freeMs < lastMs) free.push([freeMs, lastMs]);
  return free;
}
