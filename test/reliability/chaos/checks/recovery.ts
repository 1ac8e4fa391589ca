import type { ChaosRecord } from '../record';

/** How long each kind of recovery took, in milliseconds, shortest first. */
export interface Recovery {
  what: string;
  tookMs: number[];
}

/** Kinds of faults after which a holder is dead. */
const DEATHS = ['kill-client', 'kill-command', 'terminate-holder'];

export function recoveries(record: ChaosRecord): Recovery[] {
  return [
    { what: 'holder death to slot free', tookMs: afterDeaths(record) },
    { what: 'server kill to next grant', tookMs: untilGrant(record, 'kill-server') },
    { what: 'node kill to next grant', tookMs: untilGrant(record, 'kill-node') },
    { what: 'kill of both nodes to next grant', tookMs: untilGrant(record, 'kill-both-nodes') },
    { what: 'PostgreSQL kill to next grant', tookMs: untilGrant(record, 'kill-postgres') },
    { what: 'queue termination to next grant', tookMs: untilGrant(record, 'terminate-queue') },
    { what: 'permit worker kill to next grant', tookMs: untilGrant(record, 'kill-permit-worker') },
  ].map(({ what, tookMs }) => ({ what, tookMs: tookMs.sort((a, b) => a - b) }));
}

/** From the death of a holder that was at work to the end of its permit: by its lease, or with its parent. */
function afterDeaths({ faults, bodies, acquires, permits }: ChaosRecord): number[] {
  const actorOf = new Map(acquires.map(({ id, actor }) => [id, actor]));
  const closed = new Map(permits.map(({ runId, closedMs }) => [runId, closedMs]));
  return faults
    .filter(({ kind, failed }) => DEATHS.includes(kind) && failed === undefined)
    .flatMap(({ atMs, target }) =>
      bodies
        .filter(({ acquire }) => acquire === target || actorOf.get(acquire) === target)
        .filter(({ beganMs, endedMs = atMs, died }) => beganMs <= atMs && (endedMs > atMs || died))
        .map(({ runId }) => (closed.get(runId) ?? Number.NaN) - atMs)
        .filter((ms) => ms > 0 && Number.isFinite(ms)),
    );
}

/** Where somebody waited: from the fault to the next holder at work, in that pool if the fault is of one. */
function untilGrant({ faults, bodies, acquires }: ChaosRecord, kind: string): number[] {
  return faults
    .filter((fault) => fault.kind === kind && fault.failed === undefined)
    .flatMap(({ atMs, target }) => {
      const ofPool = ({ resource }: { resource: string }) => kind !== 'terminate-queue' || resource === target;
      const isWaitedFor = acquires.some(
        (acquire) =>
          ofPool(acquire) && acquire.askedMs <= atMs && (acquire.settledMs ?? Number.POSITIVE_INFINITY) > atMs,
      );
      const next = Math.min(
        ...bodies.filter((body) => ofPool(body) && body.beganMs > atMs).map(({ beganMs }) => beganMs),
      );
      return isWaitedFor && Number.isFinite(next) ? [next - atMs] : [];
    });
}
