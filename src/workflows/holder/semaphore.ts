import { ApplicationFailure } from '@temporalio/workflow';
import { checkFunction, checkOptions, refuse, textWithin } from '../../shared/check';
import type { DeclaredSemaphore } from '../../shared/declared-limits';
import { checkNotDerived } from '../../shared/key-names';
import {
  type AcquireOptions,
  adoptedRenewalMs,
  atOnce,
  endMs,
  type ResolvedAcquire,
  type ResolvedSemaphore,
  resolveAcquire,
  resolveSemaphore,
  resolveSetAcquire,
  type SemaphoreOptions,
  type SetOptions,
} from '../../shared/options';
import { queueId } from '../../shared/permit-id';
import { type PermitsOf, type SetEntry, wantedOf } from '../../shared/permit-set';
import type { OverrideInput, PermitRef } from '../../shared/protocol';
import { MAX_REASON_LENGTH } from '../../shared/protocol';
import { requestOf } from '../../shared/request';
import { checked, checkPlace, PermitTimeoutError } from '../errors';
import { startQueue } from '../queue/queue-place';
import { deliver, overrideSignal } from '../signals';
import { acquirePermit, callerNow, tryPermit } from './acquire-permit';
import { asHolder, heldHere, holdWhile } from './hold';
import { ofRun } from './options-of-run';
import { adopt, type Permit } from './permit';
import { acquireSet, type PermitSet, withSet } from './permit-set';
import { begun } from './unawaited';

/** The options of `withPermit`. */
export interface WithPermitOptions extends AcquireOptions {
  /**
   * Runs the function under this permit instead of a new one, and takes the permit over as {@link Semaphore.adopt} does. The options of the
   * wait then have no effect.
   * @default undefined: it acquires a permit
   */
  adopt?: PermitRef | undefined;
  /** @internal Whether the run ends with the function. */
  isWholeRun?: boolean | undefined;
}

const DEFAULTS = { leaseMs: 10 * 60_000, inWorkflow: true };

/**
 * A counting semaphore for Workflow code: at most `capacity` holders of `resource` at once, in all Workflows of the
 * namespace that name it. It has no state of its own (the running permit Workflows are the state), so you can make one at
 * module level and share it. Its methods work only in Workflow code, and throw a failure of the type `IllegalStateError` elsewhere.
 *
 * Not guaranteed:
 * - that acquirers agree on `capacity`. With two different ones, the larger holds; `inspect` and `ls` show where two differ.
 * - that a caller which holds all permits by `acquire` does not wait for itself. Inside `withPermit` that is refused, or costs nothing
 *   with `reentrant`.
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
export class Semaphore implements DeclaredSemaphore {
  /** The name of the shared thing. */
  readonly resource: string;
  /** @internal */
  readonly options: ResolvedSemaphore;
  /** @internal */
  readonly declared: SemaphoreOptions;

  /**
   * @param resource the name of the shared thing; printable, at most 204 bytes of UTF-8
   * @throws ApplicationFailure of type `InvalidOptionsError` that names the expected and the given value
   */
  constructor(resource: string, options: SemaphoreOptions) {
    this.options = checked(() => {
      const resolved = resolveSemaphore(resource, options, DEFAULTS);
      checkNotDerived(resource);
      return resolved;
    });
    this.resource = resource;
    this.declared = { ...options };
  }

  /**
   * Runs `fn` under a permit: acquires the permit, renews its lease while `fn` runs, and releases it when `fn` returns, throws or
   * is cancelled. When the permit is lost, this cancels the scope in which `fn` runs.
   *
   * With `preemptible`, a waiter of higher priority may ask for the permit: the scope of `fn` is cancelled, unless `fn` gives way
   * `atCheckpoints`. If `fn` returns within the grace anyway, its result counts.
   *
   * An error that is no `TemporalFailure` is a bug. This rethrows the error at once, which fails the Workflow Task, and writes no release
   * into the history. So code that a deploy mends continues under the same permit, or is notified that the permit was lost.
   *
   * @throws PermitLostError when the permit was lost before `fn` was done, whatever `fn` returned or threw; with `how: 'preempted'` when
   * a waiter of higher priority asked for it and `fn` threw
   * @throws PermitTimeoutError, LineFullError and SelfDeadlockError as {@link acquire} does; `fn` has not run then
   * @throws CancelledFailure when the current scope is cancelled
   * @throws ApplicationFailure of type `InvalidOptionsError`
   *
   * @example
   * ```ts
   * const slot = await gpus.withPermit(async (permit) => permit.slot, { timeout: '10m', purpose: 'nightly' });
   * ```
   *
   * @example
   * ```ts
   * // One permit for all runs of a Workflow that continues as new.
   * export async function train(epoch: number, held?: PermitRef): Promise<void> {
   *   const work = async (permit: Permit) => {
   *     await runEpoch(epoch, permit.runId);
   *     if (epoch < 100) await continueAsNew<typeof train>(epoch + 1, permit.detach());
   *   };
   *   await gpus.withPermit(work, { adopt: held, outlivesRun: true });
   * }
   * ```
   */
  async withPermit<T>(fn: (permit: Permit) => T | Promise<T>, options: WithPermitOptions = {}): Promise<T> {
    checked(() => checkFunction(fn));
    const { adopt: ref, isWholeRun, ...rest } = options ?? {};
    const { semaphore, acquire } = this.begin(options && rest);
    const ended = begun(this.resource);
    try {
      if (ref) return await holdWhile(await this.adopt(ref), adoptedRenewalMs(semaphore, ref), fn);
      const outer = semaphore.reentrant ? heldHere.find(this.resource, acquire.key) : undefined;
      if (outer) return await asHolder(outer, fn);
      if (isKeyed(semaphore, acquire)) {
        const wanted = [{ semaphore, key: acquire.key }];
        return await withSet(wanted, acquire, ([permit]) => asHolder(permit as Permit, fn), isWholeRun);
      }
      return await holdWhile(await acquireOne(semaphore, acquire), semaphore.renewEveryMs, fn, isWholeRun);
    } finally {
      ended();
    }
  }

  /**
   * Waits for a free slot and claims it. The caller must then renew and release the permit; prefer {@link withPermit}. A permit
   * that its caller does not release ends with its lease, or with this Workflow (even if the Workflow continues as new). With a `key`,
   * the permit also holds the key's own permit, which is renewed and released with it.
   *
   * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource, if no `timeout` is given
   * @throws PermitTimeoutError when no slot came free within `timeout`
   * @throws LineFullError when as many as `maxWaiting` wait already
   * @throws CancelledFailure when the current scope is cancelled; a slot won meanwhile has been released
   * @throws ApplicationFailure of type `InvalidOptionsError`
   *
   * @example
   * ```ts
   * const permit = await gpus.acquire({ timeout: '5m' });
   * try {
   *   await train('a');
   *   await permit.renew();
   *   await train('b');
   * } finally {
   *   await permit.release();
   * }
   * ```
   */
  async acquire(options?: AcquireOptions): Promise<Permit> {
    const { semaphore, acquire } = this.begin(options);
    if (!isKeyed(semaphore, acquire)) return await acquireOne(semaphore, acquire);
    const { permits } = await acquireSet([{ semaphore, key: acquire.key }], acquire);
    return permits[0] as Permit;
  }

  /**
   * Tries every slot once. Returns `undefined` if all are held. With `fair`, if a wait queue runs, this waits in the queue for a
   * second instead, so that it overtakes no waiter. Throws as {@link acquire} does, except for PermitTimeoutError.
   *
   * @example
   * ```ts
   * const permit = await gpus.tryAcquire();
   * if (permit) {
   *   try {
   *     await train('small');
   *   } finally {
   *     await permit.release();
   *   }
   * }
   * ```
   */
  async tryAcquire(options?: Omit<AcquireOptions, 'timeout'>): Promise<Permit | undefined> {
    const { semaphore, acquire } = this.begin(checked(() => atOnce(options)));
    if (!isKeyed(semaphore, acquire)) return await tryPermit(requestOf(semaphore, acquire, callerNow()));
    const set = await acquireSet([{ semaphore, key: acquire.key }], acquire).catch(noneInTime);
    return set?.permits[0] as Permit | undefined;
  }

  /**
   * Takes over a permit of this resource that the former run of this Workflow acquired, another Workflow (both with `outlivesRun`), or
   * a client. It renews the lease once. From now on this Workflow renews and releases the permit, and is notified of its loss; prefer
   * {@link withPermit} with `adopt`. The holder before must have detached it (`permit.detach()`).
   *
   * Not guaranteed: that no other caller adopts the same reference; only the last adopter is notified of the end. Nor that this Workflow
   * is notified at once when the permit is terminated: an adopted permit is no child, so only the next renewal finds it gone.
   *
   * @param ref the reference that `permit.ref()` or `permit.detach()` returned
   * @throws PermitLostError when the permit has ended meanwhile, or never existed; a Workflow can't tell which, so `how` is `unknown`
   * @throws ApplicationFailure of type `InvalidOptionsError` when `ref` is no reference to a permit of this resource
   *
   * @example
   * ```ts
   * import type { PermitRef } from 'temporal-semaphore/workflow';
   *
   * // Started by a Workflow that acquired with outlivesRun, with permit.detach() as the argument.
   * export async function evaluate(held: PermitRef): Promise<void> {
   *   const permit = await gpus.adopt(held);
   *   try {
   *     await batch(permit.slot);
   *   } finally {
   *     await permit.release();
   *   }
   * }
   * ```
   */
  async adopt(ref: PermitRef): Promise<Permit> {
    checkPlace();
    checked(() => {
      if (ref?.resource !== this.resource) refuse('ref', `a permit of "${this.resource}"`, ref?.resource);
    });
    return await adopt(ref);
  }

  /**
   * Takes all slots out of use as they come free, until that time: for a 429 that says when to come back. Permits stay held.
   * The wait queue keeps the pause and ends it, even if this Workflow has ended long ago. A pause that ends later, or has no
   * end, stays as it is. This resolves when the server has accepted the pause.
   *
   * @param until in the future, by this Workflow's clock
   * @param options with a `reason`, shown to operators; at most 1,000 characters
   * @throws ApplicationFailure of type `InvalidOptionsError`
   * @throws ApplicationFailure of type `NoAnswerError` if no queue has taken the pause, since each ended; call it again
   *
   * @example
   * ```ts
   * await vendor.pauseUntil(new Date(Date.now() + retryAfterSeconds * 1_000), { reason: '429' });
   * ```
   */
  async pauseUntil(until: Date, options: { reason?: string } = {}): Promise<void> {
    checkPlace();
    const order = checked(() => {
      const { reason } = checkOptions(options, { reason: textWithin(MAX_REASON_LENGTH) });
      return { pauseUntilMs: endMs(until, Date.now()), reason };
    });
    await orderPause(this.options, order);
  }

  /** Begins an acquire. @throws ApplicationFailure of type `InvalidOptionsError` */
  private begin(options: AcquireOptions | undefined): { semaphore: ResolvedSemaphore; acquire: ResolvedAcquire } {
    checkPlace();
    const acquire = checked(() => resolveAcquire(this.options, options));
    const { semaphore, key } = ofRun({ semaphore: this.options, key: acquire.key });
    return { semaphore, acquire: { ...acquire, key } };
  }
}

async function acquireOne(semaphore: ResolvedSemaphore, acquire: ResolvedAcquire): Promise<Permit> {
  heldHere.checkSelfDeadlock([semaphore], acquire);
  return await acquirePermit(requestOf(semaphore, acquire, callerNow()));
}

/** Whether an acquire takes a permit of the key too. */
function isKeyed({ perKey }: ResolvedSemaphore, { key }: ResolvedAcquire): boolean {
  return perKey !== undefined || key !== undefined;
}

function noneInTime(error: unknown): undefined {
  if (!(error instanceof PermitTimeoutError)) throw error;
}

/**
 * Runs `fn` under permits of several resources: acquires them as {@link acquireAll} does, renews them while `fn` runs, and
 * releases them when `fn` returns, throws or is cancelled. When a permit is lost, this cancels the scope in which `fn` runs. Each
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
 *   return await withPermits([licences, { of: gpus, permits: 2 }], async ([licence, [one, other]]) =>
 *     run(model, licence.slot, one.slot, other.slot),
 *   );
 * }
 * ```
 */
export async function withPermits<const Entries extends readonly SetEntry<Semaphore>[], T>(
  entries: Entries,
  fn: (permits: PermitsOf<Entries, Permit>) => T | Promise<T>,
  options?: SetOptions,
): Promise<T> {
  checked(() => checkFunction(fn));
  const { wanted, acquire } = resolveSet(entries, options);
  const ended = begun(...wanted.map(({ semaphore }) => semaphore.resource));
  try {
    return await withSet(wanted, acquire, (permits) => fn(permits as unknown as PermitsOf<Entries, Permit>));
  } finally {
    ended();
  }
}

/**
 * Acquires permits of several resources, or several permits of one resource: all, or none. Whatever order their code lists the resources in,
 * all callers claim in one order, by the bytes of the resources' names (a key's own permit before its resource). So no two callers can
 * deadlock. While this waits for one permit, it renews the permits that it holds already. The `timeout` covers all permits together, and the
 * caller keeps its age in every queue.
 *
 * Of the callers that want more than one permit of a resource, a single one at a time collects its permits. The others queue for their
 * turn, first come, first served. While it collects, it holds the only permit of the resource `<resource>~set` too.
 *
 * The caller must then renew and release the permits; prefer {@link withPermits}. On return, each was renewed less than `renewEvery` ago.
 *
 * Not guaranteed: freedom from deadlock with callers that nest `withPermit` by hand in another order.
 *
 * @throws PermitTimeoutError that names the resource without a free permit; nothing is held then
 * @throws PermitLostError when one was lost during the wait for another; nothing is held then
 * @throws CancelledFailure when the current scope is cancelled; nothing is held then
 * @throws SelfDeadlockError inside `withPermit`s that hold all permits of one of the resources, if no `timeout` is given
 * @throws ApplicationFailure of type `InvalidOptionsError`, also when a resource comes twice
 *
 * @example
 * ```ts
 * import { acquireAll } from 'temporal-semaphore/workflow';
 *
 * const set = await acquireAll([licences, { of: gpus, permits: 2 }], { timeout: '10m' });
 * const [licence, [one, other]] = set.permits;
 * try {
 *   await batch(licence.slot, one.slot, other.slot);
 * } finally {
 *   await set.release();
 * }
 * ```
 */
export async function acquireAll<const Entries extends readonly SetEntry<Semaphore>[]>(
  entries: Entries,
  options?: SetOptions,
): Promise<PermitSet<PermitsOf<Entries, Permit>>> {
  const { wanted, acquire } = resolveSet(entries, options);
  return (await acquireSet(wanted, acquire)) as unknown as PermitSet<PermitsOf<Entries, Permit>>;
}

function resolveSet(entries: readonly SetEntry<Semaphore>[], options: SetOptions | undefined) {
  checkPlace();
  return checked(() => ({
    wanted: wantedOf(entries, (of) => (of instanceof Semaphore ? of.options : undefined)).map(ofRun),
    acquire: resolveSetAcquire(options),
  }));
}

/** A queue that ends at this very moment takes no pause. More than one such queue in a row is not to be expected. */
const ATTEMPTS = 5;

/** Has the queue pause the resource until then. If no queue runs, this starts one. It resolves when the server has accepted the pause. */
async function orderPause(
  { resource, compactSlots: slots, taskQueue }: ResolvedSemaphore,
  { pauseUntilMs, reason }: Pick<OverrideInput, 'pauseUntilMs' | 'reason'>,
): Promise<void> {
  const order: OverrideInput = { slots, pauseUntilMs, reason };
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if ((await deliver({ workflowId: queueId(resource) }, overrideSignal, order)) === 'delivered') return;
    await startQueue(resource, taskQueue);
  }
  throw ApplicationFailure.nonRetryable(
    `The wait queue of "${resource}" has not taken the pause: the queue ended at each attempt. Call pauseUntil again.`,
    'NoAnswerError',
  );
}
