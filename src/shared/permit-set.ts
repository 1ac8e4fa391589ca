import { refuse } from './invalid-options';
import { byteOrder } from './permit-id';

/** One entry of a set: a semaphore, alone or with options. `S` is the semaphore of Workflows or of clients. */
export type SetEntry<S> = S | { readonly of: S };

/** The permits that a caller gets for its entries. */
export type PermitsOf<Entries extends readonly unknown[], Permit> = { -readonly [I in keyof Entries]: Permit };

/** One resource of a set. */
export interface SetPart<S> {
  readonly semaphore: S;
  readonly resource: string;
  /** The index of its entry. */
  readonly index: number;
}

/**
 * The parts of a set, in the order in which all callers claim them: by the bytes of the resource's name. Since the order is one
 * for all, no two callers can each hold what the other waits for.
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

/** Puts the permits of the parts into the order of the caller's entries. */
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
 * Acquires part after part: all, or none. Pure: the caller brings the way to wait for a permit, and to keep it meanwhile.
 *
 * Invariants, cited in the tests:
 *
 * - **S1** It waits for one part at a time, in their order, and holds all that come before.
 * - **S2** When it can't get one, it releases all that it holds, the last first, and throws that one's error.
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
    await releaseInReverse(held).catch(() => undefined); // the first error counts more; the lease ends any permit that is left
    throw error; // S2
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
