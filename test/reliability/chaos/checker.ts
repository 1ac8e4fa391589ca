import { checkKept, checkOwned, checkReleased, checkStopped } from './checks/holders';
import { checkGivesWay, checkIdle, checkLeaks, checkServed, idleness } from './checks/liveness';
import { checkBackInUse, checkOutOfUse, checkRevoked } from './checks/orders';
import { type Recovery, recoveries } from './checks/recovery';
import {
  bodyOverlaps,
  certainHolds,
  checkFence,
  checkHolders,
  checkPace,
  checkSlots,
  checkTokens,
} from './checks/safety';
import { checkSets } from './checks/sets';
import type { ChaosRecord, Death } from './record';

/** What must never be broken, each with its violations. */
export interface Invariant {
  id: string;
  promise: string;
  /** How much it was checked on. */
  checked: number;
  violations: string[];
}

export interface ChaosVerdict {
  invariants: Invariant[];
  grants: number;
  outcomes: Record<string, number>;
  faults: Record<string, number>;
  /** Faults that could not be carried out: what they were to hit was gone, or the server was down. */
  faultsNotDone: Record<string, number>;
  /** Each is explained by a fault, or S7 tells it: a lease can't stop a process, a fence can refuse it. */
  overlapsWithoutFencing: number;
  staleWritesRejected: number;
  writes: number;
  slowestWaitMs: number;
  /** From asking to the end: of a Workflow, when it has ended. Something hangs that takes minutes. */
  slowest: { acquire: string; tookMs: number };
  longestIdleMs: number;
  recoveries: Recovery[];
}

/** Judges a run by its record alone. Pure. */
export function judge(record: ChaosRecord, idleLimitMs: number): ChaosVerdict {
  const { acquires, bodies, writes, faults, disorder, turns, replayed, replayFailures, permits, deaths } = record;
  const holds = certainHolds(record).length;
  const invariant = (id: string, promise: string, checked: number, violations: string[]) => {
    return { id, promise, checked, violations };
  };
  const idle = idleness(record);
  const told = (id: string, promise: string, { checked, violations }: { checked: number; violations: string[] }) =>
    invariant(id, promise, checked, violations);
  return {
    invariants: [
      invariant('S1', 'no more holders at once than allowed, and one a slot', holds, checkHolders(record)),
      invariant('S2', 'only declared slots', holds, checkSlots(record)),
      invariant('S3', 'a stale token is rejected', writes.length, checkFence(record)),
      invariant('S4', 'tokens are ordered in each slot', holds, checkTokens(record)),
      told('S5', 'a slot is not given again before its pace is over', checkPace(record)),
      told('S6', 'a holder that no fault hit keeps its permit to the end', checkKept(record)),
      told('S7', 'a holder whose permit has ended stops within its notice', checkStopped(record)),
      told('S8', 'sets claim in one order, and no two each have a part', checkSets(record)),
      invariant('L1', 'no permit is nobody’s', permits.length, [...checkLeaks(record), ...checkOwned(record)]),
      invariant(
        'L2',
        `no free slot idle for more than ${idleLimitMs} ms with a live waiter`,
        idle.length,
        checkIdle(record, idleLimitMs),
      ),
      invariant('L3', 'every live waiter is served', acquires.length, checkServed(record)),
      told('L4', 'a permit ends when its holder is done', checkReleased(record)),
      told('L5', 'a permit pool that is never idle gives way', checkGivesWay(record)),
      told('O1', 'what an answered shrink or pause has put out of use is not given', checkOutOfUse(record)),
      told('O2', 'what an answered order has put into use is not kept from waiters', checkBackInUse(record)),
      told('O3', 'an answered revoke has ended the hold', checkRevoked(record)),
      invariant('W', 'no process ends by itself', record.permitWorkers.length, deaths.map(ended)),
      invariant('F', 'turns by priority, then arrival', turns, disorder),
      invariant('D', 'every history replays', replayed, replayFailures),
    ],
    grants: new Set(bodies.map(({ runId }) => runId)).size,
    outcomes: count(acquires.map(({ outcome }) => outcome ?? 'waiting')),
    faults: count(faults.filter(({ failed }) => failed === undefined).map(({ kind }) => kind)),
    faultsNotDone: count(faults.filter(({ failed }) => failed !== undefined).map(({ kind }) => kind)),
    overlapsWithoutFencing: bodyOverlaps(record),
    staleWritesRejected: writes.filter(({ admitted }) => !admitted).length,
    writes: writes.length,
    slowestWaitMs: Math.max(0, ...waits(record)),
    slowest: slowest(record),
    longestIdleMs: Math.round(idle[0]?.idleMs ?? 0),
    recoveries: recoveries(record),
  };
}

function ended({ actor, how, atMs }: Death): string {
  return `${actor} ended by itself (${how}) at ${new Date(atMs).toISOString().slice(11, 23)}`;
}

/** From asking to the beginning of the work, as far as that was seen. */
function waits({ acquires, bodies }: ChaosRecord): number[] {
  const began = new Map<string, number>();
  for (const { acquire, beganMs } of bodies) {
    began.set(acquire, Math.min(beganMs, began.get(acquire) ?? Number.POSITIVE_INFINITY));
  }
  return acquires.flatMap(({ id, outcome, askedMs, settledMs }) => {
    const servedMs = began.get(id) ?? settledMs;
    return outcome === 'granted' && servedMs !== undefined ? [servedMs - askedMs] : [];
  });
}

function slowest({ acquires }: ChaosRecord): ChaosVerdict['slowest'] {
  let found = { acquire: 'none', tookMs: 0 };
  for (const { id, outcome, askedMs, settledMs = askedMs } of acquires) {
    const tookMs = settledMs - askedMs;
    if (outcome === 'granted' && tookMs > found.tookMs) found = { acquire: id, tookMs };
  }
  return found;
}

function count(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of [...names].sort()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
