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
 * What a caller wants a permit of: a semaphore; or a semaphore with the `key` that its limit `perKey` needs, or with a number of `permits`.
 * `S` is the semaphore class of Workflows or of clients.
 */
export type SetEntry<S> =
  | S
  | {
      /** The semaphore. */
      readonly of: S;
      /** The tenant or customer that the permit is for, if the semaphore has a limit `perKey`. */
      readonly key?: string | undefined;
      /** How many permits of the resource the entry asks for. @default 1, as a single permit instead of an array */
      readonly permits?: number | undefined;
    };

/** What the caller gets for each entry of a set: a permit, or an array of as many permits as the entry asks for. */
export type PermitsOf<Entries extends readonly unknown[], Permit> = {
  -readonly [I in keyof Entries]: Entries[I] extends { readonly permits: number } ? Permit[] : Permit;
};

/** What a caller wants of one resource. */
export interface Wanted<S> {
  readonly semaphore: S;
  readonly key?: string;
  readonly permits?: number;
}

/** One permit of a set. */
export interface SetPart<S> {
  readonly semaphore: S;
  /** The resource of the part's permit; for an accumulator, the resource that it is for. The parts of one resource come one after the other. */
  readonly resource: string;
  /** The key of the entry. */
  readonly key: string | undefined;
  /** The index of the entry. */
  readonly index: number;
  /**
   * - `own`: the permit that the entry asks for;
   * - `key`: the key's own permit, which is needed for it;
   * - `accumulator`: allows its holder to keep some permits of the resource while it waits for more. It is given back once all are held.
   */
  readonly role: 'own' | 'key' | 'accumulator';
  /** How many permits of the resource the caller accumulates; `undefined` for one. */
  readonly permits: number | undefined;
}

const ENTRY = { of: asIs<unknown>(), key: checkKey, permits: wholeFrom(1) };

/** Reads the caller's entries. @param semaphoreOf returns `undefined` for a value that is no semaphore @throws InvalidOptionsError */
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
 * The parts of a set, in the order in which all callers claim them ({@link claimOrder}). So two callers can never each hold what the
 * other waits for. The slots of one resource have no order. So a caller that wants several of them first takes the accumulator's permit,
 * of which there is only one.
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
 * The semaphores of which an acquirer needs a permit: the key's first, so that callers of a full key hold no slot of the resource.
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
  // The resource's own permit keeps the pace. The key's permit has only the least pace that the server needs.
  return [{ ...whole, ...slots, resource: keyResource(resource, key), perKey: undefined, paceMs: undefined }, whole];
}

/**
 * A one-permit semaphore that a caller holds while it collects several permits, so that no two callers each hold half of what they need. It is
 * in strict order: callers that want several permits are served in the order of their arrival.
 */
function accumulatorOf<S extends ResolvedSemaphore>(semaphore: S): S {
  const resource = accumulatorResource(semaphore.resource);
  checkResource(resource);
  const slots = { slots: ['0'], compactSlots: 1, mark: 1 };
  return { ...semaphore, ...slots, resource, perKey: undefined, paceMs: undefined, fair: true };
}

/** The semaphore without the slots that the caller holds already, which it need not try. */
export function withoutHeld<S extends ResolvedSemaphore>(
  semaphore: S,
  held: readonly { readonly resource: string; readonly slot: string }[],
): S {
  const own = new Set(held.filter(({ resource }) => resource === semaphore.resource).map(({ slot }) => slot));
  return own.size === 0 ? semaphore : { ...semaphore, slots: semaphore.slots.filter((slot) => !own.has(slot)) };
}

/**
 * The fields of a part's ticket: how many permits its caller accumulates, and how the permits that the caller keeps rank it. A caller gives
 * way to a higher priority if it keeps only the permit that admits it to this resource, that of its key or of the accumulator.
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
  release(): Promise<void>;
}

/** A permit of a set that the caller holds. */
export interface HeldPart<Grant> {
  readonly part: Pick<SetPart<unknown>, 'index' | 'role'>;
  readonly grant: Grant;
}

/**
 * Acquires part after part: all, or none. Pure: the functions that wait for a permit, and keep it meanwhile, come in from outside.
 *
 * Invariants, cited in the tests:
 *
 * - **S1** It waits for one part at a time, in their order, and holds all parts before it.
 * - **S2** If a part can't be acquired, it gives back all that it holds, beginning with the last, and throws the error of that part.
 * - **S3** It gives the accumulator's permit back as soon as it has all permits that it accumulated, or when it gives way, and not before.
 * - **S4** When it gives way, it has no permit of the resource yet. It gives back the permits that admit it to the resource, and claims
 *   again from there.
 *
 * @param acquire gets the permits that are held already, and whether the caller gave way before: it then waits in its old place, and tries
 * no slot before it joins the queue. Throws {@link GivesWay}
 * @param confirm throws if the caller no longer wants the permits: giving the accumulator's permit back may have taken a while
 * @param giveBack releases the accumulator's permit, or a permit that the caller gives back to give way
 * @param giveAllBack releases all that is held if a part can't be acquired
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
    const back = held.filter(({ part }) => isOfWhole(part)); // they came last
    await releaseInReverse(back.map(({ grant }) => ({ release: () => giveBack(grant) })));
    held.splice(held.length - back.length);
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
    await giveAllBack(grants()).catch(() => undefined); // the first error matters more; the leases end what is left
    throw error; // S2
  }
}

/** The queue has no place for an accumulator: an operator has left fewer slots than it wants. Internal: the caller keeps waiting. */
export class TooFewSlots extends Error {
  constructor(
    readonly resource: string,
    readonly recheckAfterMs: number,
  ) {
    super(`"${resource}" has too few slots in use`);
  }
}

/**
 * Acquires. While too few slots are in use, it tries again after a while; meanwhile it holds nothing and is in no queue, so it keeps no
 * other caller waiting (S2). It tries again at once if the server has ended a permit that it kept for its `maxHold`.
 *
 * @param pause waits this long; it throws if the deadline comes first, or the caller is cancelled
 * @param isMaxHold whether an error says that a permit reached its `maxHold`
 */
export async function acquireUntilEnough<T>(
  acquire: () => Promise<T>,
  pause: (ms: number, resource: string) => Promise<void>,
  random: () => number,
  isMaxHold: (error: unknown) => boolean,
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
 * The permits of a set, entry by entry: a list for each entry with a number of `permits`.
 * @param permitOf makes a permit from the entry's own grant and the key's grant
 * @returns `inOrder`: these permits, in the order in which they were acquired
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

/**
 * Releases all permits at once, so that none waits for another whose Workflow is paused or has no worker. The last goes first: whoever is
 * served the first then finds the others free. A failure that no caller awaits does not end the process, as with a single permit.
 * @throws the first failure, after trying each
 */
export function releaseInReverse(permits: readonly Releasable[]): Promise<void> {
  const released = Promise.allSettled([...permits].reverse().map((permit) => permit.release())).then((ends) => {
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  });
  released.catch(() => undefined);
  return released;
}

/** Permits that were acquired together, and are renewed and released together. The base class of both sets: of Workflows and of clients. */
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

  /** Renews the lease of each permit. @returns when the first of the leases ends now @throws PermitLostError if a permit has ended */
  async renew(lease?: Duration): Promise<Date> {
    return earliest(await Promise.all(this.inOrder.map((permit) => permit.renew(lease))));
  }

  /** Releases all permits. Idempotent. Throws as a permit's `release` does, after trying each. */
  release(): Promise<void> {
    return releaseInReverse(this.inOrder);
  }

  /** @internal After the release: how the first lost permit was lost before it, if that was not known yet. */
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
