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
 * Permits of several resources, acquired together and released together. Each has a lease and a fencing token of its own.
 */
export class PermitSet<Permits extends readonly Permit[] = readonly Permit[]> implements AsyncDisposable {
  /** Resolves when the first permit is lost, with its error; never otherwise. */
  readonly lost: Promise<PermitLostError>;

  /** @internal Made by {@link acquireAll}. */
  constructor(
    /** In the order of the caller's entries. */
    readonly permits: Permits,
    private readonly inOrder: readonly Permit[],
  ) {
    this.lost = Promise.race(inOrder.map(({ lost }) => lost));
  }

  /** Renews each permit. @throws PermitLostError when one has ended */
  async renew(): Promise<void> {
    await Promise.all(this.inOrder.map((permit) => permit.renew()));
  }

  /** Releases all permits, in the reverse of the order in which they were acquired. Idempotent. */
  async release(): Promise<void> {
    await releaseInReverse(this.inOrder);
  }

  /** `await using set = await acquireAll([…])` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/**
 * Runs `fn` under permits of several resources: acquires them as {@link acquireAll} does, renews them while `fn` runs, and
 * releases them when `fn` returns, throws or is cancelled. When one is lost, this cancels the scope in which `fn` runs. Each
 * permit has its own token: pass to a resource the token of the permit that protects it.
 *
 * @throws PermitLostError that names the lost permit, whatever `fn` returned or threw
 * @throws PermitTimeoutError that names the resource without a free permit; `fn` has not run then
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
 * Acquires a permit of each resource: all, or none. All callers claim in one order, by the bytes of the resources' names,
 * whatever order they write. So no two of them can block each other for ever. While this waits for one permit, it renews those
 * that it holds already. The `timeout` covers all of them together, and the caller keeps its age in every line.
 *
 * The caller must then renew and release them; prefer {@link withPermits}. On return, each was renewed less than `renewEvery` ago.
 *
 * Not guaranteed: freedom from deadlock with callers that nest `withPermit` by hand in another order.
 *
 * @throws PermitTimeoutError that names the resource without a free permit; nothing is held then
 * @throws PermitLostError when one was lost during the wait for another; nothing is held then
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

/** Acquires them in the order of `parts`, and renews each from then on. */
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
