import { refuse } from './invalid-options';
import { byteOrder } from './permit-id';

/** What a caller wants a permit of: a semaphore, alone or with what is to be said of it. `S` is that of Workflows or of clients. */
export type SetEntry<S> = S | { readonly of: S };

/** What each entry of a set gives to the caller. */
export type PermitsOf<Entries extends readonly unknown[], Permit> = { -readonly [I in keyof Entries]: Permit };

/** One resource of a set. */
export interface SetPart<S> {
  readonly semaphore: S;
  readonly resource: string;
  /** Of the entry that it comes from. */
  readonly index: number;
}

/**
 * The parts of a set, in the order in which everybody claims them: by the bytes of the resource's name. It is one for all
 * callers, so that none can hold what another waits for while it waits for what that one holds.
 *
 * @throws InvalidOptionsError
 */
export function partsInOrder<S extends { readonly resource: string }>(
  entries: readonly SetEntry<S>[],
  isSemaphore: (value: unknown) => value is S,
): SetPart<S>[] {
  if (!Array.isArray(entries) || entries.length === 0) refuse('entries', 'an array of one or more semaphores', entries);
  const parts = entries.map((entry: SetEntry<S>, index) => {
    const semaphore = isSemaphore(entry) ? entry : entry?.of;
    if (!isSemaphore(semaphore)) refuse(`entries[${index}]`, 'a semaphore, or { of: semaphore }', typeof entry);
    return { semaphore, resource: semaphore.resource, index };
  });
  parts.sort((a, b) => byteOrder(a.resource, b.resource));
  for (const [index, { resource }] of parts.entries()) {
    if (resource === parts[index - 1]?.resource) refuse('entries', 'each resource once', resource);
  }
  return parts;
}

/** What was acquired part by part, as the caller's entries name it. */
export function byEntry<S, Permit>(parts: readonly SetPart<S>[], permits: readonly Permit[]): Permit[] {
  const granted: Permit[] = [];
  for (const [at, { index }] of parts.entries()) granted[index] = permits[at] as Permit;
  return granted;
}

/** A permit as a set sees it. */
interface Releasable {
  release(): Promise<void>;
}

/**
 * Acquires part after part: all, or none. Pure: how to wait for a permit, and how to keep it meanwhile, comes in from
 * outside.
 *
 * Invariants, cited in the tests:
 *
 * - **S1** It waits for one part at a time, in their order, and holds all that come before.
 * - **S2** When one can't be had, it gives back all that it holds, the last first, and throws what that one threw.
 */
export async function acquireInOrder<Part, Permit extends Releasable>(
  parts: readonly Part[],
  acquire: (part: Part) => Promise<Permit>,
): Promise<Permit[]> {
  const held: Permit[] = [];
  try {
    for (const part of parts) held.push(await acquire(part)); // S1
    return held;
  } catch (error) {
    await releaseInReverse(held).catch(() => undefined); // why it can't be had counts more; the lease ends what is left
    throw error; // S2
  }
}

/** Gives each back, the last first, also when one can't be. @throws the first failure, once each was tried */
export async function releaseInReverse(permits: readonly Releasable[]): Promise<void> {
  const failures: unknown[] = [];
  for (const permit of [...permits].reverse()) {
    await permit.release().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
