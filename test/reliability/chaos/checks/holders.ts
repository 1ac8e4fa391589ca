import { permitId } from '@/shared/permit-id';
import { HOLDER_PREFIX } from '../holder-prefix';
import type { Acquire, Body, ChaosRecord, FaultEvent, PermitRun } from '../record';
import { Hits } from './hits';
import { covered, measure, union, without } from './intervals';

/** A permit that ends with its lease was last renewed so long before: the longest lease of a run is 6 s. */
const LEASE_MS = 7_000;

/** So soon after its permit has ended, a holder that no fault hits has stopped. An activity hears by its heartbeats, which the SDK sends every 2.4 s. */
const NOTICE_MS = 3_000;
const ACTIVITY_NOTICE_MS = 6_000;

/** So long after it was stopped, a process runs again. */
const RUNNING_MS = 1_000;

/** So long after a fault a holder may not hear yet, because its connection is not back. */
const RECONNECTED_MS = 5_000;

/** So soon after its holder's end, a permit has ended … */
const RELEASED_MS = 6_000;

/** … but for faults, of which one may cost a Workflow Task, and so the ten seconds until that is tried again. */
const RETRIED_MS = 11_000;

/** L1: a permit that ends by its lease had a holder that a fault hit. It was nobody's otherwise, or its holder forgot to renew it. */
export function checkOwned(record: ChaosRecord): string[] {
  const hits = new Hits(record);
  const worked = new Set(record.bodies.map(({ runId }) => runId));
  const flaky = flakyOf(record);
  const actors = new Set(record.acquires.map(({ actor }) => actor));
  return record.permits.flatMap(({ resource, slot, runId, startedMs, closedMs, holder, outcome, drained }) => {
    if (
      outcome !== 'lease-expired' ||
      holder === undefined ||
      !actors.has(actorOf(holder)) ||
      drained ||
      worked.has(runId) ||
      flaky.has(resource)
    )
      return [];
    // A lease is as late as the permit workers are, and ends no permit while that is paused.
    const late = union([...hits.ofWorkers(RETRIED_MS), ...hits.paused(permitId({ resource, slot }), runId)]);
    const lateMs = covered([startedMs, closedMs], late);
    const near = covered(
      [closedMs - LEASE_MS - lateMs, closedMs],
      union([...hits.ofAny([holder, actorOf(holder)], RECONNECTED_MS), ...hits.flooded(permitId({ resource, slot }))]),
    );
    return near > 0
      ? []
      : [`${resource}/${slot}/${runId} of ${holder} ended by its lease, and nobody had worked under it`];
  });
}

/** The time from the permit's end at the server to when its holder stopped. */
interface Loss {
  body: Body;
  permit: PermitRun;
  actor: string;
}

/**
 * S6: a permit that ended while its holder worked was taken by a fault that hit this very holder, or by somebody who may. And none asks its
 * holder to give way to a waiter that does not outrank it.
 */
export function checkKept(record: ChaosRecord): { checked: number; violations: string[] } {
  const hits = new Hits(record);
  const unexplained = losses(record).filter((loss) => !isExplained(loss, record, hits));
  const wrongly = record.permits.filter(({ gaveWay, askedMs }) => gaveWay && askedMs === undefined);
  return {
    checked: judged(record).length,
    violations: [
      ...unexplained.map(
        ({ body, permit, actor }) =>
          `${told(body)} lost its permit (${permit.outcome ?? 'terminated'}) at ${time(permit.closedMs)}, and no fault had hit ${actor}`,
      ),
      ...wrongly.map(
        ({ resource, slot, runId }) =>
          `${resource}/${slot}/${runId} asked its holder to give way, and nobody who outranks it had asked for that`,
      ),
    ],
  };
}

/**
 * S7: a holder whose permit has ended stops within its notice, but for the time in which a fault is at work on it. So two bodies of one slot
 * overlap for no longer than that: the later permit starts when the earlier one has ended (S1). A client that is cut off stops by its own
 * lease.
 */
export function checkStopped(record: ChaosRecord): { checked: number; violations: string[] } {
  const hits = new Hits(record);
  const all = losses(record);
  const late = all.flatMap(({ body, permit, actor }) => {
    const { acquire, endedMs = Number.POSITIVE_INFINITY } = body;
    // A Workflow that was reset begins anew under a permit that it has released.
    const fromMs = Math.max(permit.closedMs, body.beganMs);
    const ranMs = measure(without([[fromMs, endedMs]], hits.stopped(actor, RUNNING_MS)));
    const leaseMs = permit.outcome === 'lease-expired' ? 0 : LEASE_MS;
    if (actor !== 'application' && ranMs > NOTICE_MS + leaseMs)
      return [
        `${told(body)} worked on for ${Math.round(ranMs)} ms after the end of its lease, in which nothing stopped ${actor}`,
      ];
    // A Workflow hears in a task, and one whose delivery a fault has lost comes again after its ten seconds.
    const lostTasks = actor === 'application' ? hits.withoutReplies(actor, RETRIED_MS) : [];
    const deaf = union([...hits.ofAny([actor, acquire], RECONNECTED_MS), ...lostTasks]);
    const heardMs = measure(without([[fromMs, endedMs]], deaf));
    const noticeMs = actor === 'application' ? ACTIVITY_NOTICE_MS : NOTICE_MS;
    return heardMs > noticeMs
      ? [
          `${told(body)} worked on for ${Math.round(heardMs)} ms after the end of its permit, in which no fault hit ${actor}`,
        ]
      : [];
  });
  return { checked: all.length, violations: late };
}

/** L4: when its holder is done, a permit ends: by its release, or after its pace. */
export function checkReleased(record: ChaosRecord): { checked: number; violations: string[] } {
  const hits = new Hits(record);
  const actors = actorsOf(record);
  const paces = new Map(record.pools.map(({ resource, paceMs = 0 }) => [resource, paceMs]));
  const last = new Map<string, Body>();
  for (const body of judged(record)) {
    const before = last.get(body.runId);
    if ((body.endedMs ?? Number.POSITIVE_INFINITY) >= (before?.endedMs ?? 0)) last.set(body.runId, body);
  }
  let checked = 0;
  const violations: string[] = [];
  for (const { runId, resource, startedMs, closedMs, slot } of record.permits) {
    const body = last.get(runId);
    if (body?.endedMs === undefined || body.died) continue;
    checked++;
    const actor = actors.get(body.acquire) ?? '';
    const fromMs = Math.max(body.endedMs, startedMs + (paces.get(resource) ?? 0));
    const open = without(
      [[fromMs, closedMs]],
      union([
        ...hits.ofAny([actor, body.acquire], RETRIED_MS),
        ...hits.ofWorkers(RETRIED_MS),
        ...hits.paused(permitId({ resource, slot }), runId), // a release takes effect after that
      ]),
    );
    const openMs = measure(open);
    if (openMs > RELEASED_MS)
      violations.push(
        `${resource}/${slot}/${runId} lasted ${Math.round(openMs)} ms longer than the work of ${body.acquire}`,
      );
  }
  return { checked, violations };
}

function isExplained({ body, permit, actor }: Loss, { orders, faults }: ChaosRecord, hits: Hits): boolean {
  const { resource, slot, closedMs, outcome, rangMs = closedMs } = permit;
  const isNear = (fromMs: number, withinMs: number) => fromMs <= closedMs && closedMs <= fromMs + withinMs;
  if (outcome === 'revoked')
    return orders.some(
      (order) =>
        order.kind === 'revoke' && order.resource === resource && order.slot === slot && isNear(order.sentMs, 60_000),
    );
  if (outcome === 'preempted')
    return permit.askedMs !== undefined && closedMs >= permit.askedMs + (permit.graceMs ?? 0);
  const isOwn = ({ kind, target }: FaultEvent) =>
    kind !== 'stranger-flood' && kind !== 'pause-workflow' && target === permitId(permit);
  if (outcome === undefined && faults.some((fault) => isOwn(fault) && isNear(fault.atMs, 5_000))) return true;
  // A Workflow that was reset goes on under a permit that it has released.
  const untilMs = Math.max(closedMs, body.beganMs);
  const hit = union([...hits.ofAny([actor, body.acquire]), ...hits.flooded(permitId(permit))]);
  const fromMs = (outcome === 'lease-expired' ? rangMs : closedMs) - LEASE_MS;
  return covered([fromMs, untilMs], hit) > 0;
}

/** Where signals are spoilt, a permit may be lost for nothing. */
function judged(record: ChaosRecord): Body[] {
  const flaky = flakyOf(record);
  return record.bodies.filter(({ resource }) => !flaky.has(resource));
}

function flakyOf({ pools }: ChaosRecord): Set<string> {
  return new Set(pools.filter((pool) => pool.flaky).map(({ resource }) => resource));
}

/** A holder is a client's identity, which is its actor's name, or a Workflow. */
function actorOf(holder: string): string {
  return holder.startsWith(HOLDER_PREFIX) ? 'application' : holder;
}

function losses(record: ChaosRecord): Loss[] {
  const actors = actorsOf(record);
  const runs = new Map(record.permits.map((permit) => [permit.runId, permit]));
  return judged(record).flatMap((body) => {
    const permit = runs.get(body.runId);
    const isLost = permit && permit.closedMs < (body.endedMs ?? Number.POSITIVE_INFINITY);
    return isLost ? [{ body, permit, actor: actors.get(body.acquire) ?? '' }] : [];
  });
}

function actorsOf({ acquires }: ChaosRecord): Map<string, string> {
  return new Map(acquires.map(({ id, actor }: Acquire) => [id, actor]));
}

function told({ acquire, resource, slot, runId, beganMs, endedMs }: Body): string {
  return `${acquire} in ${resource}/${slot}/${runId} (${time(beganMs)} to ${endedMs === undefined ? 'the end' : time(endedMs)})`;
}

function time(ms: number): string {
  return Number.isFinite(ms) ? new Date(ms).toISOString().slice(11, 23) : 'the end';
}
