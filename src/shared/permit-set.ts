import { backoffMs } from './backoff';
import { refuse } from './invalid-options';
import { accumulatorOf, checkKey, claimOrder, poolsFor } from './key-pool';
import { checkNoKey, checkPermits, MAX_SLOTS, type ResolvedAcquire, type ResolvedSemaphore } from './options';
import { checkNoPreemption, type ResolvedPreemption } from './preemption';
import type { Rank } from './ticket';

/**
 * What a caller wants a permit of: a semaphore; or one with the `key` that its limit per key asks for, or with how many `permits`.
 * `S` is that of Workflows or of clients.
 */
export type SetEntry<S> = S | { readonly of: S; readonly key?: string; readonly permits?: number };

/** What each entry of a set gives to the caller: a permit, or so many as it asked for. */
export type PermitsOf<Entries extends readonly unknown[], Permit> = {
  -readonly [I in keyof Entries]: Entries[I] extends { readonly permits: number } ? Permit[] : Permit;
};

/** What is wanted of one pool. */
export interface Wanted<Pool> {
  readonly pool: Pool;
  readonly key?: string;
  readonly permits?: number;
}

/** One permit of a set. */
export interface SetPart<Pool> {
  readonly pool: Pool;
  /** The parts of one resource come one after the other. The accumulator's part names the resource that it is for. */
  readonly resource: string;
  /** Of the entry for which it is. */
  readonly key: string | undefined;
  /** Of the entry whose permit it is; `undefined` for one that only has to be held: a key's, or the accumulator's. */
  readonly index: number | undefined;
  /** Allows its holder to keep some permits of the resource while it waits for more. Given back when it has them. */
  readonly isAccumulator: boolean;
  /** How many permits of the resource the caller accumulates; `undefined` for one. */
  readonly permits: number | undefined;
}

/** Refuses options that belong to an entry. */
export function checkSetOptions({
  key,
  permits,
  ...preemption
}: Pick<ResolvedAcquire, 'key' | 'permits'> & Partial<ResolvedPreemption>): void {
  if (key !== undefined) refuse('key', 'the key in its entry, { of: semaphore, key }', key);
  if (permits !== undefined) refuse('permits', 'the number in its entry, { of: semaphore, permits }', permits);
  checkNoPreemption(preemption);
}

/** Reads the caller's entries. @param poolOf `undefined` for what is no semaphore @throws InvalidOptionsError */
export function wantedOf<S, Pool>(
  entries: readonly SetEntry<S>[],
  poolOf: (value: unknown) => Pool | undefined,
): Wanted<Pool>[] {
  if (!Array.isArray(entries) || entries.length === 0) refuse('entries', 'an array of one or more semaphores', entries);
  return entries.map((entry: unknown, index) => {
    const { of, key, permits } = (
      typeof entry === 'object' && entry !== null && 'of' in entry ? entry : { of: entry }
    ) as { of: unknown; key?: string; permits?: number };
    const pool = poolOf(of);
    if (pool === undefined) refuse(`entries[${index}]`, 'a semaphore, or { of: semaphore }', typeof of);
    checkKey(key);
    checkPermits(permits);
    return { pool, key, permits };
  });
}

/**
 * The parts of a set, in the order in which everybody claims them ({@link claimOrder}). It is one for all callers, so that none
 * can hold what another waits for while it waits for what that one holds. The slots of one resource have no order. So a
 * caller that wants several of them first takes the accumulator's permit, of which there is one.
 *
 * @throws InvalidOptionsError
 */
export function partsInOrder<Pool extends ResolvedSemaphore>(
  wanted: readonly Wanted<Pool>[],
  { outlivesRun }: Pick<ResolvedAcquire, 'outlivesRun'>,
): SetPart<Pool>[] {
  const resources = wanted.flatMap(({ pool: whole, key, permits = 1 }, index) => {
    if (outlivesRun) checkNoKey(key);
    const pools = poolsFor(whole, key, MAX_SLOTS);
    return pools.map((pool) => ({ pool, key, permits, index: pool === whole ? index : undefined }));
  });
  resources.sort((a, b) => claimOrder(a.pool.resource, b.pool.resource));
  return resources.flatMap(({ pool, key, permits, index }, at) => {
    const { resource, slots } = pool;
    if (resource === resources[at - 1]?.pool.resource) refuse('entries', 'each resource once', resource);
    if (permits > slots.length) refuse('permits', `at most ${slots.length}, the capacity of "${resource}"`, permits);
    const part = { pool, resource, key, index, isAccumulator: false, permits: permits > 1 ? permits : undefined };
    const parts = Array.from({ length: permits }, () => part);
    if (permits === 1) return parts;
    return [
      { pool: accumulatorOf(pool), resource, key, index: undefined, isAccumulator: true, permits: undefined },
      ...parts,
    ];
  });
}

/** What was acquired, as the caller's entries name it: a list for each that says how many. */
export function byEntry<Permit>(
  wanted: readonly Pick<Wanted<unknown>, 'permits'>[],
  held: readonly { readonly part: SetPart<unknown>; readonly permit: Permit }[],
): (Permit | Permit[])[] {
  return wanted.map(({ permits }, index) => {
    const own = held.filter(({ part }) => part.index === index).map(({ permit }) => permit);
    return permits === undefined ? (own[0] as Permit) : own;
  });
}

/** The slots that a caller tries by itself, without those that it holds already. */
export function withoutHeld(
  { resource, slots }: Pick<ResolvedSemaphore, 'resource' | 'slots'>,
  held: readonly { readonly resource: string; readonly slot: string }[],
): readonly string[] {
  const own = new Set(held.filter((permit) => permit.resource === resource).map(({ slot }) => slot));
  return own.size === 0 ? slots : slots.filter((slot) => !own.has(slot));
}

/** How the permits that a caller keeps rank it in the line of another part. */
export function rankOf(resource: string, held: readonly { readonly resource: string }[]): Rank {
  const others = new Set(held.map((permit) => permit.resource).filter((other) => other !== resource));
  const kept = held.filter((permit) => permit.resource === resource).length;
  return { kept, inherits: others.size > 0 ? [...others] : undefined };
}

/** A permit as a set sees it. */
interface Releasable {
  release(): Promise<void>;
}

/**
 * Acquires part after part: all, or none. Pure: the caller brings the way to wait for a permit, and to keep it meanwhile.
 *
 * Invariants, cited in the tests:
 *
 * - **S1** It waits for one part at a time, in their order, and holds all that come before.
 * - **S2** When one can't be had, it gives back all that it holds, the last first, and throws what that one threw.
 * - **S3** It gives the accumulator's permit back as soon as it has all that it accumulated, and not before.
 *
 * @param acquire is told which permits are held already
 * @param confirm throws when the caller no longer wants them: it may have taken a while to give the accumulator's permit back
 * @param giveBack releases the accumulator's permit
 * @returns all but the accumulators' permits, in the order in which they were acquired
 */
export async function acquireInOrder<
  Part extends Pick<SetPart<unknown>, 'resource' | 'isAccumulator'>,
  Permit extends Releasable,
>(
  parts: readonly Part[],
  acquire: (part: Part, held: readonly Permit[]) => Promise<Permit>,
  confirm: () => Promise<void> | void,
  giveBack: (permit: Permit) => Promise<void> = (permit) => permit.release(),
): Promise<{ part: Part; permit: Permit }[]> {
  const held: { part: Part; permit: Permit }[] = [];
  const permits = () => held.map(({ permit }) => permit);
  try {
    for (const [at, part] of parts.entries()) {
      held.push({ part, permit: await acquire(part, permits()) }); // S1
      const accumulator = held.find((it) => it.part.isAccumulator);
      if (!accumulator || parts[at + 1]?.resource === part.resource) continue;
      await giveBack(accumulator.permit); // S3
      held.splice(held.indexOf(accumulator), 1);
    }
    await confirm();
    return held;
  } catch (error) {
    await releaseInReverse(permits()).catch(() => undefined); // why it can't be had counts more; the lease ends what is left
    throw error; // S2
  }
}

/** The line has no place for an accumulator: an operator has left fewer slots than it wants. Not for users: it waits on. */
export class TooFewSlots extends Error {
  constructor(
    readonly resource: string,
    readonly recheckAfterMs: number,
  ) {
    super(`"${resource}" has too few slots in use`);
  }
}

/**
 * Acquires; and again after a while, as long as too few slots are in use. Meanwhile it holds nothing and stands in no line, so it
 * keeps nobody waiting (S2). And again at once when the server has ended a permit that it kept for its `maxHold`: it waits on.
 *
 * @param pause waits so long; it throws when the deadline comes first, or the caller is cancelled
 * @param isMaxHold whether an error says so
 */
export async function besideTheLine<T>(
  acquire: () => Promise<T>,
  pause: (ms: number, resource: string) => Promise<void>,
  random: () => number,
  isMaxHold: (error: unknown) => boolean = () => false,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await acquire();
    } catch (error) {
      if (isMaxHold(error)) continue;
      if (!(error instanceof TooFewSlots)) throw error;
      const { resource, recheckAfterMs: baseMs } = error;
      await pause(backoffMs(attempt, random(), { baseMs, maxMs: 20 * baseMs, factor: 2, jitter: 0.25 }), resource);
    }
  }
}

/** Releases each, the last first, also after a failure. @throws the first failure, after trying each */
export async function releaseInReverse(permits: readonly Releasable[]): Promise<void> {
  const failures: unknown[] = [];
  for (const permit of [...permits].reverse()) {
    await permit.release().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
