import { CancellationScope, uuid4, workflowInfo } from '@temporalio/workflow';
import { Acquirer, type Offer } from '../../shared/acquirer';
import {
  type AcquireOptions,
  type ResolvedAcquire,
  type ResolvedSemaphore,
  resolveAcquire,
  resolveSemaphore,
  type SemaphoreOptions,
} from '../../shared/options';
import type { PermitRef, Ticket } from '../../shared/protocol';
import { draftTicket } from '../../shared/ticket';
import { checked, PermitTimeoutError } from '../errors';
import { metrics, timeAcquire } from '../metrics';
import { claimSlot } from '../permit/claim';
import { WorkflowQueuePlace } from '../queue/queue-place';
import { adopt } from './adoption';
import { listenForRevocations } from './holder-inbox';
import { Permit } from './permit';
import { endOfChild } from './permit-end';
import { withHeldPermit } from './with-permit';

const DEFAULTS = { leaseMs: 10 * 60_000, inWorkflow: true };

/**
 * Each try of a slot that is taken costs a Workflow five history events. Where all are taken, fewer are better; where half are
 * free, two find one three times in four. The rounds are for a queue that does not answer, which may take hours.
 */
const TRIES = { firstTries: 2, triesPerRound: 5 };

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
  private readonly options: ResolvedSemaphore;

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
    const timer = timeAcquire(this.resource);
    try {
      const permit =
        request.timeoutMs === 0
          ? await this.acquirer(request).tryEvery()
          : await this.acquirer(request, Date.now() + request.timeoutMs).acquire();
      if (!permit) throw new PermitTimeoutError(this.resource, request.timeoutMs);
      return timer.ended(permit);
    } catch (error) {
      throw timer.failed(error);
    }
  }

  /** Tries every slot once. `undefined` when all are busy. Throws as {@link acquire} does, but for the timeout. */
  async tryAcquire(options?: Omit<AcquireOptions, 'timeout'>): Promise<Permit | undefined> {
    const request = checked(() => resolveAcquire({ ...options, timeout: 0 }));
    const timer = timeAcquire(this.resource);
    try {
      return timer.ended(await this.acquirer(request).tryEvery());
    } catch (error) {
      throw timer.failed(error);
    }
  }

  private acquirer(request: ResolvedAcquire, deadlineMs = Number.POSITIVE_INFINITY): Acquirer<Permit> {
    const { slots, fair, recheckAfterMs, taskQueue } = this.options;
    return new Acquirer(
      { slots, deadlineMs, recheckAfterMs, ...TRIES, triesBeforeJoin: fair ? 0 : 1 },
      {
        nowMs: Date.now,
        random: Math.random,
        claim: async (slot, offer) => await this.timeClaim(slot, request, offer),
        place: () => new WorkflowQueuePlace(this.resource, this.ticketFor(request), taskQueue),
      },
    );
  }

  private ticketFor({ priority }: ResolvedAcquire): Ticket {
    const { workflowId, runId, priority: ownPriority } = workflowInfo();
    const { compactSlots: slots } = this.options;
    const draft = draftTicket({ id: uuid4(), slots, sinceMs: Date.now(), priority, ownPriority });
    return { ...draft, waiter: { workflowId, runId } };
  }

  private async timeClaim(slot: string, request: ResolvedAcquire, offer?: Offer): Promise<Permit | undefined> {
    const sinceMs = Date.now();
    const permit = await this.claim(slot, request, offer?.queueId);
    if (permit && offer) metrics.handoff(this.resource, 'claim', Date.now() - sinceMs);
    return permit;
  }

  /**
   * The atomic step. A start that is under way cannot be recalled, so it is shielded from cancellation, and its permit
   * handed back if nobody wants it any more.
   */
  private async claim(slot: string, request: ResolvedAcquire, watchedBy?: string): Promise<Permit | undefined> {
    const caller = CancellationScope.current();
    if (caller.consideredCancelled) return await caller.cancelRequested;
    const permit = await CancellationScope.nonCancellable(() => this.startPermit(slot, request, watchedBy));
    if (!caller.consideredCancelled) return permit;
    await permit?.release();
    return await caller.cancelRequested;
  }

  /** `undefined` when the slot is held: the server already runs a Workflow of that ID. */
  private async startPermit(
    slot: string,
    { purpose, outlivesRun }: ResolvedAcquire,
    watchedBy: string | undefined,
  ): Promise<Permit | undefined> {
    const { resource, leaseMs, maxHoldMs, taskQueue } = this.options;
    listenForRevocations();
    const options = { leaseMs, maxHoldMs, taskQueue, purpose, outlivesRun, watchedBy };
    const child = await claimSlot({ resource, slot }, options);
    if (!child) return undefined;
    const ref = { resource, slot, workflowId: child.workflowId, runId: child.firstExecutionRunId, leaseMs };
    return new Permit(ref, endOfChild(child), outlivesRun);
  }
}
