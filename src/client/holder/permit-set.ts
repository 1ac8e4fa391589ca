import {
  acquireInOrder,
  byEntry,
  type PermitsOf,
  partsInOrder,
  releaseInReverse,
  type SetEntry,
  type SetPart,
} from '../../shared/permit-set';
import { type ClientAcquireOptions, type Request, thisMoment } from '../options';
import { SemaphoreClient } from '../semaphore-client';
import type { Permit } from './permit';
import { releaseOrWarn } from './release-or-warn';

/**
 * Permits of several resources, acquired together and released together. Each renews itself, and has a lease and a fencing
 * token of its own.
 */
export class PermitSet<Permits extends readonly Permit[] = readonly Permit[]> implements AsyncDisposable {
  private readonly loss = new AbortController();

  /** @internal Made by {@link acquireAll}. */
  constructor(
    /** In the order of the caller's entries. */
    readonly permits: Permits,
    private readonly inOrder: readonly Permit[],
  ) {
    for (const permit of inOrder) whenLost(permit, (reason) => this.loss.abort(reason));
  }

  /**
   * Aborts when the first permit is lost; its reason is that permit's `PermitLostError`. As with `permit.signal`, reading it
   * checks the clock.
   */
  get signal(): AbortSignal {
    for (const { signal } of this.inOrder) if (signal.aborted) this.loss.abort(signal.reason);
    return this.loss.signal;
  }

  /** Renews each permit. @throws PermitLostError when one has ended */
  async renew(): Promise<void> {
    await Promise.all(this.inOrder.map((permit) => permit.renew()));
  }

  /** Releases all permits, in the reverse of the order in which they were acquired. Idempotent. Throws as a permit's `release` does, after trying each. */
  async release(): Promise<void> {
    await releaseInReverse(this.inOrder);
  }

  /** `await using set = await acquireAll([…])` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/**
 * Runs `fn` under permits of several resources: acquires them as {@link acquireAll} does, and releases them when `fn` returns or
 * throws. When one is lost, the `signal` that `fn` gets aborts. `fn` must heed it. Each permit has its own token: pass to a
 * resource the token of the permit that protects it. A release that fails only warns, as in `withPermit`.
 *
 * @throws PermitLostError that names the lost permit, whatever `fn` returned or threw
 * @throws PermitTimeoutError that names the resource without a free permit; `fn` has not run then
 *
 * @example
 * ```ts
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3, taskQueue: 'permits' });
 * const licences = new SemaphoreClient(client, 'licences', { capacity: 5, taskQueue: 'permits' });
 *
 * await withPermits([gpus, licences], async ([gpu, licence], signal) => {
 *   await fetch(`https://gpus.example/${gpu.slot}`, { method: 'POST', body: licence.slot, signal });
 * });
 * ```
 */
export async function withPermits<const Entries extends readonly SetEntry<SemaphoreClient>[], T>(
  entries: Entries,
  fn: (permits: PermitsOf<Entries, Permit>, signal: AbortSignal) => Promise<T>,
  options?: ClientAcquireOptions,
): Promise<T> {
  const { set, inOrder } = await acquire(entries, options);
  try {
    const result = await fn(set.permits, set.signal);
    set.signal.throwIfAborted();
    return result;
  } catch (error) {
    set.signal.throwIfAborted();
    throw error;
  } finally {
    await releaseInReverse(inOrder.map((permit) => ({ release: () => releaseOrWarn(permit) })));
  }
}

/**
 * Acquires a permit of each resource: all, or none. All callers claim in one order, by the bytes of the resources' names,
 * whatever order they write. So no two of them can block each other for ever. Permits that this holds already renew themselves
 * while it waits for others. The `timeout` covers all of them together, and the caller keeps its age in every line.
 *
 * Not guaranteed: freedom from deadlock with callers that nest `withPermit` by hand in another order.
 *
 * @throws PermitTimeoutError that names the resource without a free permit; nothing is held then
 * @throws PermitLostError when one was lost during the wait for another; nothing is held then
 * @throws the reason of `signal` when that aborts; nothing is held then
 * @throws InvalidOptionsError, before any call, also when a resource comes twice
 */
export async function acquireAll<const Entries extends readonly SetEntry<SemaphoreClient>[]>(
  entries: Entries,
  options?: ClientAcquireOptions,
): Promise<PermitSet<PermitsOf<Entries, Permit>>> {
  return (await acquire(entries, options)).set;
}

async function acquire<const Entries extends readonly SetEntry<SemaphoreClient>[]>(
  entries: Entries,
  options: ClientAcquireOptions | undefined,
): Promise<{ set: PermitSet<PermitsOf<Entries, Permit>>; inOrder: readonly Permit[] }> {
  const isSemaphore = (value: unknown): value is SemaphoreClient => value instanceof SemaphoreClient;
  const parts = partsInOrder(entries, isSemaphore);
  const since = thisMoment();
  const requests = new Map(parts.map((part) => [part, part.semaphore.request(options, since)]));
  const inOrder = await acquireParts(parts, requests);
  const permits = byEntry(parts, inOrder) as unknown as PermitsOf<Entries, Permit>;
  return { set: new PermitSet(permits, inOrder), inOrder };
}

/** A loss ends the wait for the others, as the caller's own signal does. */
async function acquireParts(
  parts: readonly SetPart<SemaphoreClient>[],
  requests: ReadonlyMap<SetPart<SemaphoreClient>, Request>,
): Promise<Permit[]> {
  const waiting = new AbortController();
  const over = new AbortController();
  const [first] = requests.values();
  const abort = () => waiting.abort(first?.signal.reason);
  if (first?.signal.aborted) abort();
  first?.signal.addEventListener('abort', abort, { signal: over.signal });
  try {
    return await acquireInOrder(parts, async (part) => {
      const request = requests.get(part) as Request;
      const permit = await part.semaphore.acquireFor({ ...request, signal: waiting.signal });
      whenLost(permit, (reason) => waiting.abort(reason));
      return permit;
    });
  } finally {
    over.abort();
  }
}

function whenLost({ signal }: Permit, tell: (reason: unknown) => void): void {
  if (signal.aborted) tell(signal.reason);
  else signal.addEventListener('abort', () => tell(signal.reason), { once: true });
}
