import {
  type AcquireOptions,
  type ResolvedSemaphore,
  resolveAcquire,
  resolveSemaphore,
  type SemaphoreOptions,
} from '../../shared/options';
import type { PermitRef } from '../../shared/protocol';
import { checked } from '../errors';
import { acquirePermit, tryPermit } from './acquire-permit';
import { adopt } from './adoption';
import type { Permit } from './permit';
import { withHeldPermit } from './with-permit';

const DEFAULTS = { leaseMs: 10 * 60_000, inWorkflow: true };

/**
 * A counting semaphore for Workflow code: at most `capacity` holders of `resource` at once, over all Workflows of the
 * namespace that name it. It keeps no state of its own (the running permit Workflows are the state), so it can be made at
 * module level and shared.
 *
 * Not guaranteed: that acquirers agree on `capacity` (nothing checks it; two different ones are safe up to the larger),
 * that a Workflow which takes two permits of one resource does not deadlock (it is not reentrant), and that code which
 * ignores cancellation stops when the permit is lost (for that, check the fencing token at the resource).
 *
 * @example
 * ```ts
 * const gpus = new Semaphore('gpu-pool', { capacity: 3 });
 *
 * export async function train(dataset: string): Promise<string> {
 *   return await gpus.withPermit(async (permit) => runTraining(dataset, permit.slot, permit.runId));
 * }
 * ```
 */
export class Semaphore {
  readonly resource: string;
  /** @internal */
  readonly options: ResolvedSemaphore;

  /**
   * @param resource names the thing that is shared; printable, at most 204 bytes of UTF-8
   * @throws ApplicationFailure of type `InvalidOptionsError`, saying what was expected and what came
   */
  constructor(resource: string, options: SemaphoreOptions) {
    this.options = checked(() => resolveSemaphore(resource, options, DEFAULTS));
    this.resource = resource;
  }

  /**
   * Runs `fn` under a permit: acquires one, renews its lease while `fn` runs, and releases it whether `fn` returns,
   * throws or is cancelled. When the permit is lost, the scope in which `fn` runs is cancelled.
   *
   * @throws PermitLostError when the permit was lost before `fn` was done, whatever `fn` then returned or threw
   * @throws PermitTimeoutError as {@link acquire} does; `fn` has not run then
   */
  async withPermit<T>(fn: (permit: Permit) => Promise<T>, options?: AcquireOptions): Promise<T> {
    return await withHeldPermit(await this.acquire(options), this.options.renewEveryMs, fn);
  }

  /**
   * Takes over a permit that was acquired elsewhere: by the former run of this Workflow (with `outlivesRun`), by another
   * Workflow, or by a client. It starts the lease anew. From now on this Workflow renews and releases it, and is told of its
   * loss; who had it before must let it be (`permit.detach()`).
   *
   * Not guaranteed: that nobody else adopts the same reference (the last one is the holder that is told), and word of a
   * permit's termination: an adopted permit is no child, so only the next renewal finds it gone.
   *
   * @param ref what `permit.ref()` or `permit.detach()` gave
   * @throws PermitLostError when the permit has ended meanwhile
   * @throws ApplicationFailure of type `InvalidOptionsError` when `ref` is no reference
   *
   * @example
   * ```ts
   * export async function train(epoch: number, held?: PermitRef): Promise<void> {
   *   const permit = held ? await Semaphore.adopt(held) : await gpus.acquire({ outlivesRun: true });
   *   await runEpoch(epoch, permit.runId);
   *   if (epoch < 100) await continueAsNew<typeof train>(epoch + 1, permit.detach());
   *   await permit.release();
   * }
   * ```
   */
  static async adopt(ref: PermitRef): Promise<Permit> {
    return await adopt(ref);
  }

  /**
   * As {@link withPermit}, with a permit that is taken over by {@link adopt} instead of acquired.
   * @param renewEvery how often the lease is renewed while `fn` runs; default a third of the lease
   */
  static async withAdopted<T>(
    ref: PermitRef,
    fn: (permit: Permit) => Promise<T>,
    { renewEvery }: Pick<SemaphoreOptions, 'renewEvery'> = {},
  ): Promise<T> {
    const { renewEveryMs } = checked(() =>
      resolveSemaphore(ref?.resource, { slots: [ref?.slot], lease: ref?.leaseMs, renewEvery }, DEFAULTS),
    );
    return await withHeldPermit(await adopt(ref), renewEveryMs, fn);
  }

  /**
   * Waits for a free slot and claims it. Renewing and releasing are then up to you; prefer {@link withPermit}. A permit
   * that is never released ends with its lease, or with this Workflow (also when it continues as new).
   *
   * @throws PermitTimeoutError when `timeout` is given and no slot came free in it
   * @throws CancelledFailure when the current scope is cancelled; a slot won meanwhile has been given back
   * @throws ApplicationFailure of type `InvalidOptionsError`
   */
  async acquire(options?: AcquireOptions): Promise<Permit> {
    const request = checked(() => resolveAcquire(options));
    return await acquirePermit(this.options, request, Date.now());
  }

  /** Tries every slot once. `undefined` when all are busy. Throws as {@link acquire} does, but for the timeout. */
  async tryAcquire(options?: Omit<AcquireOptions, 'timeout'>): Promise<Permit | undefined> {
    return await tryPermit(
      this.options,
      checked(() => resolveAcquire({ ...options, timeout: 0 })),
    );
  }
}
