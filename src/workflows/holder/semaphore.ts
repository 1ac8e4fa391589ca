import { refuse } from '../../shared/invalid-options';
import { checkNoKeyPool } from '../../shared/key-pool';
import {
  type AcquireOptions,
  type ResolvedAcquire,
  type ResolvedSemaphore,
  resolveAcquire,
  resolveSemaphore,
  type SemaphoreOptions,
} from '../../shared/options';
import { checkReason, pauseEndMs } from '../../shared/pause-end';
import { checkGrace, checkNoPreemption, type OnPreempted, resolveOnPreempted } from '../../shared/preemption';
import type { PermitRef } from '../../shared/protocol';
import { orInline, type SaturationOptions, splitSaturation } from '../../shared/saturation';
import { checked, PermitTimeoutError } from '../errors';
import { acquirePermit, tryPermit } from './acquire-permit';
import { adopt } from './adoption';
import { checkSelfDeadlock, withCurrentPermit } from './current-permit';
import { pauseUntil } from './pause-until';
import type { Permit } from './permit';
import { acquireSet, type PermitSet, underSet, type WantedSet } from './permit-set';
import { withPreemptiblePermit } from './preemptible-hold';
import { withHeldPermit } from './with-permit';

/** The options of one acquire, and what to do when no slot is free. */
export type WithPermitOptions = AcquireOptions & SaturationOptions;

type Unsaturated<T> = AcquireOptions & { onPreempted?: OnPreempted<Permit, T> };
type HoldOptions<T> = WithPermitOptions & Unsaturated<T>;

const DEFAULTS = { leaseMs: 10 * 60_000, inWorkflow: true };

/**
 * A counting semaphore for Workflow code: at most `capacity` holders of `resource` at once, in all Workflows of the
 * namespace that name it. It has no state of its own (the running permit Workflows are the state), so you can make one at
 * module level and share it.
 *
 * Not guaranteed:
 * - that acquirers agree on `capacity`. With two different ones, the larger holds; `inspect` and `ls` show where two differ.
 * - that a caller which holds all permits by `acquire` does not wait for itself. Inside `withPermit` that is refused. A permit
 *   is not reentrant, since it has one token.
 * - that work stops when its permit is lost. Code that ignores cancellation goes on: check the fencing token at the resource.
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
   * @param resource the name of the shared thing; printable, at most 204 bytes of UTF-8
   * @throws ApplicationFailure of type `InvalidOptionsError` that names the expected and the given value
   */
  constructor(resource: string, options: SemaphoreOptions) {
    this.options = checked(() => {
      const resolved = resolveSemaphore(resource, options, DEFAULTS);
      checkNoKeyPool(resource);
      return resolved;
    });
    this.resource = resource;
  }

  /**
   * Runs `fn` under a permit: acquires one, renews its lease while `fn` runs, and releases it when `fn` returns, throws or
   * is cancelled. When the permit is lost, this cancels the scope in which `fn` runs.
   *
   * With `onSaturated: 'inline'` it runs `fn` without a permit when there is none to be had.
   *
   * With `preemptible`, a waiter of higher priority may ask for the permit: the scope of `fn` is cancelled, unless `fn` gives way
   * `atCheckpoints`. `onPreempted` says what comes then. If `fn` returns within the grace all the same, its result counts.
   *
   * @throws PermitLostError when the permit was lost before `fn` was done, whatever `fn` returned or threw
   * @throws PermitPreemptedError when it was pre-empted, and `onPreempted` is `'reject'`, whatever `fn` threw
   * @throws PermitTimeoutError and LineFullError as {@link acquire} does; `fn` has not run then
   */
  async withPermit<T>(
    fn: (permit: Permit | undefined) => Promise<T>,
    options: HoldOptions<T> & { onSaturated: 'inline' },
  ): Promise<T>;
  async withPermit<T>(fn: (permit: Permit) => Promise<T>, options?: HoldOptions<T>): Promise<T>;
  async withPermit<T>(fn: (permit: Permit) => Promise<T>, options?: HoldOptions<T>): Promise<T> {
    const { inline, acquire } = checked(() => splitSaturation<Unsaturated<T>>(options));
    if (!inline) return await this.underPermit(fn, acquire);
    return await orInline((held) => this.underPermit(held, acquire), fn as (permit?: Permit) => Promise<T>);
  }

  private async underPermit<T>(fn: (permit: Permit) => Promise<T>, options?: Unsaturated<T>): Promise<T> {
    const request = this.request(options);
    const onPreempted = checked(() => resolveOnPreempted(options?.onPreempted, request));
    if (!this.isSet(request)) {
      checkSelfDeadlock([{ pool: this.options }], request);
      const permit = await acquirePermit(this.options, request, { sinceMs: Date.now() });
      const { renewEveryMs } = this.options;
      return request.preemptible
        ? await withPreemptiblePermit(permit, renewEveryMs, fn, onPreempted)
        : await withHeldPermit(permit, renewEveryMs, fn);
    }
    checked(
      () =>
        request.permits === undefined || refuse('permits', 'none: withPermits(n, fn) takes several', request.permits),
    );
    return await underSet(this.wanted(request), request, ([permit]) => withCurrentPermit(permit as Permit, fn));
  }

  /**
   * Runs `fn` under so many permits of this resource, all or none: as {@link withPermit} does for one, with the options of one
   * acquire. When one is lost, the scope in which `fn` runs is cancelled. Each permit has a token of its own.
   *
   * Of those that want more than one, a single one at a time keeps a part while it waits for the rest, in the order in which
   * they came. While it accumulates, it holds the only permit of the pool `<resource>~set` too.
   *
   * @param permits at most the capacity
   * @throws as {@link withPermit} does
   *
   * @example
   * ```ts
   * await gpus.withPermits(3, async (permits) => trainOn(permits.map(({ slot }) => slot)));
   * ```
   */
  async withPermits<T>(
    permits: number,
    fn: (permits: Permit[]) => Promise<T>,
    options?: Omit<AcquireOptions, 'permits'>,
  ): Promise<T> {
    const request = this.request({ ...options, permits });
    return await underSet(this.wanted(request), request, ([all]) => fn(all as Permit[]));
  }

  /**
   * Takes over a permit that the former run of this Workflow acquired, another Workflow (both with `outlivesRun`), or a client.
   * It renews the lease. From now on this Workflow renews and releases the permit, and learns of its loss. The holder before
   * must have detached it (`permit.detach()`).
   *
   * Not guaranteed: that nobody else adopts the same reference; the last adopter learns of the end. Nor that this Workflow
   * learns at once when the permit is terminated: an adopted permit is no child, so only the next renewal finds it gone.
   *
   * @param ref the reference that `permit.ref()` or `permit.detach()` returned
   * @throws PermitLostError when the permit has ended meanwhile, or never was: the server does not tell a Workflow which, nor how
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
   * As {@link withPermit}, with a permit that it takes over as {@link adopt} does.
   * @param renewEvery the time between two renewals while `fn` runs; default a third of the lease
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
   * Waits for a free slot and claims it. The caller must then renew and release the permit; prefer {@link withPermit}. A permit
   * that nobody releases ends with its lease, or with this Workflow (also when it continues as new).
   *
   * With `permits` it gives a {@link PermitSet}, as {@link withPermits} takes it. With a `key` it gives a set of one permit, and the
   * set holds the key's own permit behind it.
   *
   * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource, if no `timeout` is given
   * @throws PermitTimeoutError when no slot came free within `timeout`, or within its `attempts`
   * @throws LineFullError when as many as `maxWaiting` wait already
   * @throws CancelledFailure when the current scope is cancelled; a slot won meanwhile has been released
   * @throws ApplicationFailure of type `InvalidOptionsError`
   */
  async acquire(options: AcquireOptions & ({ key: string } | { permits: number })): Promise<PermitSet>;
  async acquire(options?: Omit<AcquireOptions, 'key' | 'permits'>): Promise<Permit>;
  async acquire(options?: AcquireOptions): Promise<Permit | PermitSet> {
    const request = this.request(options);
    if (this.isSet(request)) return await this.acquireSet(request);
    checkSelfDeadlock([{ pool: this.options }], request);
    return await acquirePermit(this.options, request, { sinceMs: Date.now() });
  }

  /** Tries every slot once. `undefined` when all are held. Throws as {@link acquire} does, except PermitTimeoutError. */
  async tryAcquire(
    options: Omit<AcquireOptions, 'timeout'> & ({ key: string } | { permits: number }),
  ): Promise<PermitSet | undefined>;
  async tryAcquire(options?: Omit<AcquireOptions, 'timeout' | 'key' | 'permits'>): Promise<Permit | undefined>;
  async tryAcquire(options?: Omit<AcquireOptions, 'timeout'>): Promise<Permit | PermitSet | undefined> {
    const request = this.request({ ...options, timeout: 0 });
    if (!this.isSet(request)) return await tryPermit(this.options, request);
    return await this.acquireSet(request).catch(noneInTime);
  }

  /**
   * Takes all slots out of use as they come free, until that time: for a 429 that says when to come back. Permits stay held.
   * The wait queue keeps the pause and ends it, also when this Workflow is long gone. A pause that ends later, or without an
   * end, stays as it is. This resolves when the server has the order.
   *
   * @param until in the future, by this Workflow's clock
   * @param options.reason shown to operators; at most 1,000 characters
   * @throws ApplicationFailure of type `InvalidOptionsError`
   *
   * @example
   * ```ts
   * await vendor.pauseUntil(new Date(Date.now() + retryAfterSeconds * 1_000), { reason: '429' });
   * ```
   */
  async pauseUntil(until: Date, { reason }: { reason?: string } = {}): Promise<void> {
    const pauseUntilMs = checked(() => {
      checkReason(reason);
      return pauseEndMs(until, Date.now());
    });
    await pauseUntil(this.options, { pauseUntilMs, reason });
  }

  private request(options: AcquireOptions | undefined): ResolvedAcquire {
    return checked(() => {
      const request = resolveAcquire(options);
      if (this.options.perKey !== undefined) checkNoPreemption(request);
      checkGrace(request, this.options);
      return request;
    });
  }

  /** Whether it takes more than one permit. */
  private isSet({ key, permits }: ResolvedAcquire): boolean {
    return this.options.perKey !== undefined || key !== undefined || permits !== undefined;
  }

  private wanted({ key, permits }: ResolvedAcquire): WantedSet {
    return [{ pool: this.options, key, permits }];
  }

  private async acquireSet(request: ResolvedAcquire): Promise<PermitSet> {
    const { key, permits = 1 } = request;
    return (await acquireSet([{ pool: this.options, key, permits }], request)).flat();
  }
}

function noneInTime(error: unknown): undefined {
  if (!(error instanceof PermitTimeoutError)) throw error;
}
