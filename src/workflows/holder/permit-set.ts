import { CancellationScope } from '@temporalio/workflow';
import { type AcquireOptions, type ResolvedAcquire, resolveAcquire } from '../../shared/options';
import {
  acquireInOrder,
  byEntry,
  type PermitsOf,
  partsInOrder,
  releaseInReverse,
  type SetEntry,
  type SetPart,
} from '../../shared/permit-set';
import { checked, type PermitLostError } from '../errors';
import { acquirePermit } from './acquire-permit';
import type { Permit } from './permit';
import { Semaphore } from './semaphore';
import { KeptPermit, underPermits } from './with-permit';

/**
 * Permits of several resources that were acquired as one, and are given back as one. Each stays what it is: a permit with its
 * own lease and its own fencing token.
 */
export class PermitSet<Permits extends readonly Permit[] = readonly Permit[]> implements AsyncDisposable {
  /** Resolves when the first of them is lost, and names it. Never otherwise. */
  readonly lost: Promise<PermitLostError>;

  /** @internal Made by {@link acquireAll}. */
  constructor(
    /** As the caller's entries name them. */
    readonly permits: Permits,
    private readonly inOrder: readonly Permit[],
  ) {
    this.lost = Promise.race(inOrder.map(({ lost }) => lost));
  }

  /** Starts the lease of each anew. @throws PermitLostError when one has ended */
  async renew(): Promise<void> {
    await Promise.all(this.inOrder.map((permit) => permit.renew()));
  }

  /** Gives them all back, the last that was acquired first. Idempotent. */
  async release(): Promise<void> {
    await releaseInReverse(this.inOrder);
  }

  /** `await using set = await acquireAll([…])` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/**
 * Runs `fn` under permits of several resources: acquires them as {@link acquireAll} does, renews them while `fn` runs, and gives
 * them back whether `fn` returns, throws or is cancelled. When one is lost, the scope in which `fn` runs is cancelled. Each permit
 * has a token of its own: hand on that of the resource which checks it.
 *
 * @throws PermitLostError that names the lost permit, whatever `fn` then returned or threw
 * @throws PermitTimeoutError that names the resource which was missing; `fn` has not run then
 *
 * @example
 * ```ts
 * const gpus = new Semaphore('gpu-pool', { capacity: 3 });
 * const licences = new Semaphore('licences', { capacity: 5 });
 *
 * export async function simulate(model: string): Promise<string> {
 *   return await withPermits([gpus, licences], async ([gpu, licence]) => run(model, gpu.slot, licence.slot));
 * }
 * ```
 */
export async function withPermits<const Entries extends readonly SetEntry<Semaphore>[], T>(
  entries: Entries,
  fn: (permits: PermitsOf<Entries, Permit>) => Promise<T>,
  options?: AcquireOptions,
): Promise<T> {
  const { parts, request } = resolve(entries, options);
  const held = await acquireKept(parts, request);
  return await underPermits(held, () => fn(granted<Entries>(parts, held)));
}

/**
 * Acquires a permit of each resource: all, or none. Whatever order the caller writes, all callers claim in one order, by the
 * bytes of the resources' names, so that no two of them can block each other for ever. While one permit is waited for, those
 * that are held already are renewed. The `timeout` is for all of them together, and the caller keeps its age in every line.
 *
 * Renewing and releasing are then up to you; prefer {@link withPermits}. At this moment, each was renewed less than `renewEvery` ago.
 *
 * Not guaranteed: that callers which nest `withPermit` by hand, in another order, do not deadlock with this one.
 *
 * @throws PermitTimeoutError that names the resource which was missing; nothing is held then
 * @throws PermitLostError when one was lost while another was waited for; nothing is held then
 * @throws CancelledFailure when the current scope is cancelled; nothing is held then
 * @throws ApplicationFailure of type `InvalidOptionsError`, also when a resource comes twice
 */
export async function acquireAll<const Entries extends readonly SetEntry<Semaphore>[]>(
  entries: Entries,
  options?: AcquireOptions,
): Promise<PermitSet<PermitsOf<Entries, Permit>>> {
  const { parts, request } = resolve(entries, options);
  const held = await acquireKept(parts, request);
  for (const kept of held) kept.stopRenewing();
  return new PermitSet(
    granted<Entries>(parts, held),
    held.map(({ permit }) => permit),
  );
}

function resolve(entries: readonly SetEntry<Semaphore>[], options: AcquireOptions | undefined) {
  const isSemaphore = (value: unknown): value is Semaphore => value instanceof Semaphore;
  return checked(() => ({ parts: partsInOrder(entries, isSemaphore), request: resolveAcquire(options) }));
}

/** In the order of `parts`. They are renewed from the moment that each is had. */
async function acquireKept(parts: readonly SetPart<Semaphore>[], request: ResolvedAcquire): Promise<KeptPermit[]> {
  const sinceMs = Date.now();
  const waiting = new CancellationScope();
  let loss: PermitLostError | undefined;
  try {
    return await waiting.run(() =>
      acquireInOrder(parts, async ({ semaphore: { options } }) => {
        const permit = await acquirePermit(options, request, sinceMs);
        void permit.lost.then((error) => {
          loss ??= error;
          waiting.cancel();
        });
        return new KeptPermit(permit, options.renewEveryMs);
      }),
    );
  } catch (error) {
    throw loss ?? error;
  }
}

function granted<Entries extends readonly unknown[]>(
  parts: readonly SetPart<Semaphore>[],
  held: readonly KeptPermit[],
): PermitsOf<Entries, Permit> {
  const permits = held.map(({ permit }) => permit);
  return byEntry(parts, permits) as unknown as PermitsOf<Entries, Permit>;
}
