import { isKeyResource, keyOfResource, keyResource } from '@/shared/key-names';
import { slotNames, wantsSlot } from '@/shared/slots';
import type { Acquire, Body, ChaosRecord, PermitRun, Pool } from '../record';
import { CLAIMED_MS, poolNamed, settingsOf } from './out-of-use';

/** A time in which somebody certainly held a slot, and knew it. */
export interface CertainHold {
  resource: string;
  slot: string;
  runId: string;
  /** Of a permit pool, whose calls share a token one after the other. */
  pooled: boolean;
  key?: string;
  askedMs: number;
  fromMs: number;
  toMs: number;
}

/**
 * Holds as their holders knew them: from the beginning of the work to its end, or to the end of the permit if that comes first (a
 * holder that was stopped may work on: that is for the fence). A holder that was killed may hold until the server has closed its
 * permit. Two bodies of one acquire under one permit are one hold: an activity was tried again, or a Workflow reset.
 */
export function certainHolds({ bodies, permits, acquires }: ChaosRecord): CertainHold[] {
  const runs = new Map(permits.map((permit) => [permit.runId, permit]));
  const known = new Map(acquires.map((acquire) => [acquire.id, acquire]));
  const holds = new Map<string, CertainHold>();
  for (const body of bodies) {
    const { resource, slot, runId, beganMs } = body;
    const endedMs = body.died ? undefined : body.endedMs;
    const toMs = Math.min(endedMs ?? Number.POSITIVE_INFINITY, runs.get(runId)?.closedMs ?? Number.POSITIVE_INFINITY);
    if (toMs <= beganMs) continue;
    const key = `${body.acquire} ${runId}`;
    const earlier = holds.get(key);
    const { askedMs: asked = beganMs, pooled = false, key: ofKey } = known.get(body.acquire) ?? {};
    // A permit pool had its permit before this call, and may use it until it gives it back. Its own turn came before the permit.
    const hadMs = pooled ? (runs.get(runId)?.startedMs ?? asked) - CLAIMED_MS : asked;
    const askedMs = Math.min(asked, hadMs, earlier?.askedMs ?? beganMs);
    const fromMs = Math.min(beganMs, earlier?.fromMs ?? beganMs);
    holds.set(key, {
      ...{ resource, slot, runId, pooled, key: ofKey, askedMs, fromMs },
      toMs: Math.max(toMs, earlier?.toMs ?? toMs),
    });
  }
  return [...holds.values()].sort((a, b) => a.fromMs - b.fromMs);
}

/** S1: one holder a slot, no more at once than allowed in that interval, and none without a permit at the server. */
export function checkHolders(record: ChaosRecord): string[] {
  const holds = certainHolds(record);
  const violations = ghosts(record.bodies, record.permits);
  for (const group of bySlot(holds)) {
    let last: CertainHold | undefined;
    for (const hold of group) {
      if (last && last.toMs > hold.fromMs) violations.push(`${told(hold)} overlaps ${told(last)}`);
      if (!last || hold.toMs > last.toMs) last = hold;
    }
  }
  for (const pool of record.pools)
    violations.push(...tooMany(pool, holds, record), ...tooManyOfOneKey(pool, holds, record));
  return violations;
}

/** S2: a slot of the pool as deployed, or one that an operator had added while its acquirer waited; so too of a key. */
export function checkSlots(record: ChaosRecord): string[] {
  return [...wrongSlots(record), ...wrongSlotsOfKeys(record)];
}

function wrongSlots(record: ChaosRecord): string[] {
  const pools = new Map(record.pools.map((pool) => [pool.resource, { pool, capacityIn: allowance(pool, record) }]));
  return certainHolds(record).flatMap((hold) => {
    const { pool, capacityIn } = pools.get(hold.resource) ?? {};
    if (pool && wantsSlot(pool.slots, hold.slot)) return [];
    const isCounted = typeof pool?.slots === 'number';
    if (isCounted && wantsSlot(capacityIn?.(hold.askedMs, hold.fromMs) ?? 0, hold.slot)) return [];
    return [`${told(hold)}: no such slot at that time`];
  });
}

function wrongSlotsOfKeys(record: ChaosRecord): string[] {
  return record.permits.flatMap((permit) => {
    const { resource, slot, runId, startedMs, drained } = permit;
    const pool = isKeyResource(resource) && !drained ? poolNamed(resource, record) : undefined;
    if (!pool || wantsSlot(pool.slots, slot)) return [];
    const slots = allowance(pool, record)(firstAskedMs(permit, record.acquires), startedMs);
    return wantsSlot(slots, slot) ? [] : [`${resource}/${slot}/${runId}: the key has ${slots} slots`];
  });
}

/** When the first of those asked for whom this permit of a key may be: a set does not say for which key it asks. */
function firstAskedMs({ resource, startedMs }: PermitRun, acquires: readonly Acquire[]): number {
  const claimedMs = startedMs - CLAIMED_MS;
  const mayClaim = ({ key, set, askedMs, settledMs = startedMs }: Acquire) =>
    (set !== undefined || key === keyOfResource(resource)) && askedMs <= startedMs && settledMs >= claimedMs;
  return Math.min(claimedMs, ...acquires.filter(mayClaim).map(({ askedMs }) => askedMs));
}

/** S3: after a write of a newer permit of a slot, none of an older one was admitted. */
export function checkFence({ writes }: ChaosRecord): string[] {
  const newest = new Map<string, string>();
  const violations: string[] = [];
  for (const { resource, slot, runId, admitted, atMs } of writes) {
    if (!admitted) continue;
    const key = `${resource}/${slot}`;
    const before = newest.get(key) ?? '';
    if (runId < before)
      violations.push(`a write of ${key}/${runId} was admitted after one of ${before} at ${time(atMs)}`);
    else newest.set(key, runId);
  }
  return violations;
}

/** S4: of two holds of one slot, the later has the greater token. */
export function checkTokens(record: ChaosRecord): string[] {
  const violations: string[] = [];
  for (const group of bySlot(certainHolds(record))) {
    for (const [index, hold] of group.entries()) {
      const before = group[index - 1];
      if (!before || before.runId < hold.runId) continue;
      const isSamePool = before.runId === hold.runId && before.pooled && hold.pooled;
      if (!isSamePool) violations.push(`${told(hold)} has a lesser token than ${told(before)}`);
    }
  }
  return violations;
}

/** S5: a permit with a pace lasts for it, unless somebody revoked or terminated it. */
export function checkPace({ pools, permits }: ChaosRecord): { checked: number; violations: string[] } {
  const paces = new Map(pools.map(({ resource, paceMs = 0 }) => [resource, paceMs]));
  const paced = permits.flatMap(({ resource, slot, runId, startedMs, closedMs, drained, outcome }) => {
    const paceMs = paces.get(resource) ?? 0;
    const endedByItself = outcome === 'released' || outcome === 'lease-expired';
    return paceMs === 0 || drained || !endedByItself
      ? []
      : { name: `${resource}/${slot}/${runId}`, lastedMs: closedMs - startedMs, paceMs };
  });
  const short = paced.filter(({ lastedMs, paceMs }) => lastedMs < paceMs);
  const violations = short.map((it) => `${it.name} lasted for ${it.lastedMs} ms, and its pace is ${it.paceMs} ms`);
  return { checked: paced.length, violations };
}

/** Bodies that ran at one time in one slot, which only a fence can tell apart: where processes are stopped, see S7. */
export function bodyOverlaps({ bodies, permits }: ChaosRecord): number {
  const closed = new Map(permits.map(({ runId, closedMs }) => [runId, closedMs]));
  let count = 0;
  for (const group of bySlot(bodies)) {
    let last: { runId: string; toMs: number } | undefined;
    for (const { runId, beganMs, endedMs } of group.sort((a, b) => a.beganMs - b.beganMs)) {
      const toMs = endedMs ?? closed.get(runId) ?? beganMs;
      if (last && last.runId !== runId && last.toMs > beganMs) count++;
      if (!last || toMs > last.toMs) last = { runId, toMs };
    }
  }
  return count;
}

function ghosts(bodies: readonly Body[], permits: readonly PermitRun[]): string[] {
  const known = new Set(permits.map(({ runId }) => runId));
  const unknown = new Set(
    bodies.filter(({ runId }) => !known.has(runId)).map(({ resource, slot, runId }) => `${resource}/${slot}/${runId}`),
  );
  return [...unknown].map((token) => `somebody worked under ${token}, which the server does not know`);
}

function tooMany(pool: Pool, holds: readonly CertainHold[], record: ChaosRecord): string[] {
  const violations: string[] = [];
  const capacityIn = allowance(pool, record);
  let now: CertainHold[] = [];
  for (const hold of holds) {
    if (hold.resource !== pool.resource) continue;
    now = [...now.filter(({ toMs }) => toMs > hold.fromMs), hold];
    const allowed = Math.max(...now.map(({ askedMs }) => capacityIn(askedMs, hold.fromMs)));
    if (now.length > allowed)
      violations.push(`${now.length} holders of ${pool.resource} at ${time(hold.fromMs)}, allowed ${allowed}`);
  }
  return violations;
}

/** A hold counts for its key until the key's own permit ends: a holder that is stopped loses that first. */
function tooManyOfOneKey({ resource, perKey }: Pool, holds: readonly CertainHold[], record: ChaosRecord): string[] {
  if (perKey === undefined) return [];
  let now: { key: string; askedMs: number; toMs: number }[] = [];
  return holds.flatMap((hold) => {
    const { key, askedMs, fromMs } = hold;
    if (hold.resource !== resource || key === undefined) return [];
    const toMs = Math.min(hold.toMs, keysPermit(hold, key, record.permits)?.closedMs ?? Number.POSITIVE_INFINITY);
    now = [...now.filter((other) => other.toMs > fromMs), { key, askedMs, toMs }];
    const ofKey = now.filter((other) => other.key === key);
    const capacityIn = allowance({ resource: keyResource(resource, key), slots: perKey }, record);
    const allowed = Math.max(...ofKey.map((other) => capacityIn(other.askedMs, fromMs)));
    return ofKey.length > allowed
      ? [`${ofKey.length} holders of ${resource} for ${key} at ${time(fromMs)}, allowed ${allowed}`]
      : [];
  });
}

/** Its holder had it just before the permit of the whole. */
function keysPermit(
  { resource, runId }: CertainHold,
  key: string,
  permits: readonly PermitRun[],
): PermitRun | undefined {
  const whole = permits.find((permit) => permit.runId === runId);
  return permits
    .filter((permit) => permit.resource === keyResource(resource, key) && permit.holder === whole?.holder)
    .filter(({ startedMs }) => whole && startedMs <= whole.startedMs)
    .sort((a, b) => b.startedMs - a.startedMs)[0];
}

/** Says the largest capacity that may have been in effect at some moment between two. */
function allowance(pool: Pool, record: ChaosRecord): (fromMs: number, toMs: number) => number {
  const spans = settingsOf(pool, record);
  const deployed = slotNames(pool.slots).length;
  return (fromMs, toMs) => {
    const inEffect = spans.filter((span) => span.fromMs <= toMs && span.toMs >= fromMs);
    return Math.max(deployed, ...inEffect.flatMap(({ settings }) => settings.map(({ capacity = 0 }) => capacity)));
  };
}

function bySlot<T extends { resource: string; slot: string }>(items: readonly T[]): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = `${item.resource}/${item.slot}`;
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return [...groups.values()];
}

function told({ resource, slot, runId, fromMs, toMs }: CertainHold): string {
  return `${resource}/${slot}/${runId} (${time(fromMs)} to ${Number.isFinite(toMs) ? time(toMs) : 'the end'})`;
}

function time(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}
