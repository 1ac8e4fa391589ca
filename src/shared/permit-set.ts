import type { Duration } from '@temporalio/common';
import { GivesWay } from './acquirer';
import { backoffMs } from './backoff';
import { asIs, checkOptions, InvalidOptionsError, refuse, refuseBeside, refuseKind, show, wholeFrom } from './check';
import { accumulatorResource, claimOrder, keyResource, wholeOf } from './key-names';
import { earliest } from './lease';
import { checkKey, DROPPED_HALFWAY, type ResolvedAcquire, type ResolvedSemaphore } from './options';
import { checkResource } from './permit-id';
import type { PartOfSet } from './request';
import { MAX_SLOTS, slotNames } from './slots';

/**
 * What a caller wants a permit of: a semaphore; or one with the `key` that its limit per key asks for, or with how many `permits`.
 * `S` is that of Workflows or of clients.
 */
export type SetEntry<S> =
  | S
  | {
      /** The semaphore. */
      readonly of: S;
      /** Whose permit it is, if the semaphore has a limit `perKey`. */
      readonly key?: string | undefined;
      /** How many permits of the resource the entry asks for. @default 1, as a single permit instead of an array */
      readonly permits?: number | undefined;
    };

/** What each entry of a set gives to the caller: a permit, or an array of as many as it asked for. */
export type PermitsOf<Entries extends readonly unknown[], Permit> = {
  -readonly [I in keyof Entries]: Entries[I] extends { readonly permits: number } ? Permit[] : Permit;
};

/** What is wanted of one resource. */
export interface Wanted<S> {
  readonly semaphore: S;
  readonly key?: string;
  readonly permits?: number;
}

/** One permit of a set. */
export interface SetPart<S> {
  readonly semaphore: S;
  /** The parts of one resource come one after the other. The accumulator's part names the resource that it is for. */
  readonly resource: string;
  /** Of the entry for which it is. */
  readonly key: string | undefined;
  /** For which of the entries it is. */
  readonly index: number;
  /**
   * - `own`: the permit that the entry asks for;
   * - `key`: the key's own permit, which stands behind that;
   * - `accumulator`: allows its holder to keep some permits of the resource while it waits for more. Given back when it has them.
   */
  readonly role: 'own' | 'key' | 'accumulator';
  /** How many permits of the resource the caller accumulates; `undefined` for one. */
  readonly permits: number | undefined;
}

const ENTRY = { of: asIs<unknown>(), key: checkKey, permits: wholeFrom(1) };

/** Reads the caller's entries. @param semaphoreOf `undefined` for what is no semaphore @throws InvalidOptionsError */
export function wantedOf<S, Resolved>(
  entries: readonly SetEntry<S>[],
  semaphoreOf: (value: unknown) => Resolved | undefined,
): Wanted<Resolved>[] {
  if (!Array.isArray(entries) || entries.length === 0) refuse('entries', 'an array of one or more semaphores', entries);
  return entries.map((entry: unknown, index) => {
    const isObject = typeof entry === 'object' && entry !== null && 'of' in entry;
    const { of, key, permits } = checkOptions(isObject ? entry : { of: entry }, ENTRY, `entries[${index}]`);
    const semaphore = semaphoreOf(of);
    if (semaphore === undefined) refuseKind(`entries[${index}]`, 'a semaphore, or { of: semaphore }', of);
    return { semaphore, key, permits };
  });
}

/**
 * The parts of a set, in the order in which everybody claims them ({@link claimOrder}). All callers claim in the same order, so two
 * callers can never each hold what the other waits for. The slots of one resource have no order. So a caller that wants several of
 * them first takes the accumulator's permit, of which there is one.
 *
 * @throws InvalidOptionsError
 */
export function partsInOrder<S extends ResolvedSemaphore>(
  wanted: readonly Wanted<S>[],
  { outlivesRun, whenFull }: Pick<ResolvedAcquire, 'outlivesRun'> & Partial<Pick<ResolvedAcquire, 'whenFull'>>,
): SetPart<S>[] {
  const resources = wanted.flatMap(({ semaphore: whole, key, permits = 1 }, index) => {
    if (outlivesRun && key !== undefined)
      refuseBeside('outlivesRun', 'key', "no caller could adopt the key's own permit");
    return semaphoresFor(whole, key).map((semaphore) => ({
      semaphore,
      key,
      permits,
      index,
      isKeys: semaphore !== whole,
    }));
  });
  if (whenFull && (resources.length > 1 || resources.some(({ permits }) => permits > 1))) {
    refuseBeside('whenFull: "drop-oldest"', 'several permits or a key', DROPPED_HALFWAY);
  }
  resources.sort((a, b) => claimOrder(a.semaphore.resource, b.semaphore.resource));
  return resources.flatMap(({ semaphore, key, permits, index, isKeys }, at) => {
    const { resource, slots } = semaphore;
    if (resource === resources[at - 1]?.semaphore.resource) refuse('entries', 'each resource once', resource);
    if (permits > slots.length) refuse('permits', `at most ${slots.length}, the capacity of "${resource}"`, permits);
    const role = isKeys ? 'key' : 'own';
    const part: SetPart<S> = { semaphore, resource, key, index, role, permits: permits > 1 ? permits : undefined };
    if (permits === 1) return [part];
    return [
      { ...part, semaphore: accumulatorOf(semaphore), role: 'accumulator', permits: undefined },
      ...Array.from({ length: permits }, () => part),
    ];
  });
}

/**
 * The semaphores of which an acquirer needs a permit: the key's first, so that a key which is full holds no slot of the whole.
 * @throws InvalidOptionsError when the key is missing, or there is nothing that it could limit
 */
export function semaphoresFor<S extends ResolvedSemaphore>(whole: S, key: string | undefined): S[] {
  const { resource, perKey } = whole;
  if (perKey === undefined) {
    if (key !== undefined) {
      throw new InvalidOptionsError(
        `key ${show(key)}: the semaphore of "${resource}" has no perKey. Leave the key out, or give perKey.`,
      );
    }
    return [whole];
  }
  if (key === undefined) refuse('key', `a key, because "${resource}" has a limit perKey`, key);
  const limit = typeof perKey === 'function' ? perKey(key) : perKey;
  const capacity = wholeFrom(1, MAX_SLOTS)(limit, `perKey(${JSON.stringify(key)})`);
  const slots = { slots: slotNames(capacity), compactSlots: capacity, mark: capacity };
  // The pace is that of the whole, but for the least that the server needs.
  return [{ ...whole, ...slots, resource: keyResource(resource, key), perKey: undefined, paceMs: undefined }, whole];
}

/**
 * A one-permit semaphore that a caller holds while it collects several permits, so that no two callers each hold half. In strict
 * order: callers that want several are served as they came.
 */
function accumulatorOf<S extends ResolvedSemaphore>(semaphore: S): S {
  const resource = accumulatorResource(semaphore.resource);
  checkResource(resource);
  const slots = { slots: ['0'], compactSlots: 1, mark: 1 };
  return { ...semaphore, ...slots, resource, perKey: undefined, paceMs: undefined, fair: true };
}

/** The slots that a caller tries by itself, without those that it holds already. */
export function withoutHeld<S extends ResolvedSemaphore>(
  semaphore: S,
  held: readonly { readonly resource: string; readonly slot: string }[],
): S {
  const own = new Set(held.filter(({ resource }) => resource === semaphore.resource).map(({ slot }) => slot));
  return own.size === 0 ? semaphore : { ...semaphore, slots: semaphore.slots.filter((slot) => !own.has(slot)) };
}

/**
 * What the ticket of a part says: how many its caller accumulates, and how the permits that the caller keeps rank it. A caller that keeps
 * nothing but what admits it to this resource, the permit of its key or of the accumulator, gives way to a better priority.
 */
export function ticketPartOf(
  { semaphore: { resource }, permits }: SetPart<ResolvedSemaphore>,
  held: readonly { readonly resource: string }[],
): PartOfSet {
  const others = [...new Set(held.map((permit) => permit.resource).filter((other) => other !== resource))];
  if (others.length === 0) return { permits, kept: held.length };
  const kept = held.filter((permit) => permit.resource === resource).length;
  const givesWay = kept === 0 && others.every((other) => wholeOf(other) === wholeOf(resource));
  return { permits, kept, inherits: others, givesWay: givesWay || undefined };
}

/** A permit as a set sees it. */
interface Releasable {
  /** Hears that the work under it is done, and that its release comes next. */
  finish?(): void;
  release(): Promise<void>;
}

/** One permit of a set that the caller has. */
export interface HeldPart<Grant> {
  readonly part: Pick<SetPart<unknown>, 'index' | 'role'>;
  readonly grant: Grant;
}

/**
 * Acquires part after part: all, or none. Pure: the caller brings the way to wait for a permit, and to keep it meanwhile.
 *
 * Invariants, cited in the tests:
 *
 * - **S1** It waits for one part at a time, in their order, and holds all that come before.
 * - **S2** When one can't be had, it gives back all that it holds, the last first, and throws what that one threw.
 * - **S3** It gives the accumulator's permit back as soon as it has all that it accumulated, or gives way, and not before.
 * - **S4** When it gives way, it gives back what admits it to the resource, of which it has no permit, and claims again from there.
 *
 * @param acquire is told which permits are held already, and whether it gave way before: it then waits in its old place, and tries no
 * slot of its own before the line. Throws {@link GivesWay}
 * @param confirm throws when the caller no longer wants them: it may have taken a while to give the accumulator's permit back
 * @param giveBack releases the accumulator's permit, or what it gives back as it gives way
 * @param giveAllBack releases what it holds when one can't be had, the last first
 * @returns all but the accumulators' permits, in the order in which they were acquired
 */
export async function acquireInOrder<
  Part extends Pick<SetPart<unknown>, 'resource' | 'role'>,
  Grant extends Releasable,
>(
  parts: readonly Part[],
  acquire: (part: Part, held: readonly Grant[], isAgain: boolean) => Promise<Grant>,
  confirm: () => Promise<void> | void,
  giveBack: (grant: Grant) => Promise<void> = (grant) => grant.release(),
  giveAllBack: (grants: readonly Grant[]) => Promise<void> = releaseInReverse,
): Promise<{ part: Part; grant: Grant }[]> {
  const held: { part: Part; grant: Grant }[] = [];
  const grants = () => held.map(({ grant }) => grant);
  let gaveWay = false;
  /** @returns where to go on */
  const giveWay = async ({ resource }: Part): Promise<number> => {
    gaveWay = true;
    const isOfWhole = (part: Part) => wholeOf(part.resource) === wholeOf(resource);
    for (let last = held.at(-1); last && isOfWhole(last.part); last = held.at(-1)) {
      await giveBack(last.grant);
      held.pop();
    }
    return parts.findIndex(isOfWhole);
  };
  try {
    for (let at = 0; at < parts.length; ) {
      const part = parts[at] as Part;
      try {
        held.push({ part, grant: await acquire(part, grants(), gaveWay) }); // S1
      } catch (error) {
        if (!(error instanceof GivesWay)) throw error;
        at = await giveWay(part); // S4
        continue;
      }
      at++;
      const accumulator = held.find((it) => it.part.role === 'accumulator');
      if (!accumulator || parts[at]?.resource === part.resource) continue;
      await giveBack(accumulator.grant); // S3
      held.splice(held.indexOf(accumulator), 1);
    }
    await confirm();
    return held;
  } catch (error) {
    await giveAllBack(grants()).catch(() => undefined); // why it can't be had counts more; the lease ends what is left
    throw error; // S2
  }
}

/** The line has no place for an accumulator: an operator has left fewer slots than it wants. Internal: the caller keeps waiting. */
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
export async function acquireUntilEnough<T>(
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

/**
 * The permits of a set, as the caller's entries name them: a list for each entry that says how many.
 * @param permitOf makes a permit of the entry's own grant, and of the key's grant behind it
 * @returns `inOrder`: those permits, in the order in which they were acquired
 */
export function permitsByEntry<Grant, Permit>(
  wanted: readonly Pick<Wanted<unknown>, 'permits'>[],
  held: readonly HeldPart<Grant>[],
  permitOf: (own: Grant, behind: Grant | undefined, index: number) => Permit,
): { permits: (Permit | Permit[])[]; inOrder: Permit[] } {
  const inOrder: Permit[] = [];
  const permits = wanted.map((): Permit[] => []);
  for (const { part, grant } of held) {
    if (part.role !== 'own') continue;
    const own = permits[part.index] ?? [];
    const behind = held.filter((it) => it.part.role === 'key' && it.part.index === part.index)[own.length];
    const permit = permitOf(grant, behind?.grant, part.index);
    own.push(permit);
    inOrder.push(permit);
  }
  return { inOrder, permits: permits.map((own, at) => (wanted[at]?.permits === undefined ? (own[0] as Permit) : own)) };
}

/** Releases each, the last first, also after a failure. @throws the first failure, after trying each */
export async function releaseInReverse(permits: readonly Releasable[]): Promise<void> {
  for (const permit of permits) permit.finish?.(); // a slow release costs those that follow nothing but time
  const failures: unknown[] = [];
  for (const permit of [...permits].reverse()) {
    await permit.release().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}

/** Permits that were acquired together, and are renewed and released together. The base of both sets: of Workflows and of clients. */
export abstract class HeldSet<
  Permit extends Releasable & {
    renew(lease?: Duration): Promise<Date>;
    confirmLoss(): Promise<Error | undefined>;
  },
  Permits extends readonly (Permit | Permit[])[],
> implements AsyncDisposable
{
  constructor(
    /** In the order of the caller's entries. */
    readonly permits: Permits,
    /** @internal In the order in which they were acquired. */
    protected readonly inOrder: readonly Permit[],
  ) {}

  /** Starts the lease of each again. @returns when the first of the leases ends now @throws PermitLostError when one has ended */
  async renew(lease?: Duration): Promise<Date> {
    return earliest(await Promise.all(this.inOrder.map((permit) => permit.renew(lease))));
  }

  /** Releases all permits, in the reverse of the order in which they were acquired. Idempotent. Throws as a permit's `release` does, after trying each. */
  async release(): Promise<void> {
    await releaseInReverse(this.inOrder);
  }

  /** @internal After the release: how the first of them was lost before it, although nobody had heard of that. */
  async confirmLoss(): Promise<Awaited<ReturnType<Permit['confirmLoss']>>> {
    let loss: Error | undefined;
    for (const permit of this.inOrder) loss ??= await permit.confirmLoss();
    return loss as Awaited<ReturnType<Permit['confirmLoss']>>;
  }

  /** `await using set = await acquireAll([…])` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
