import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { CancellationScope, ParentClosePolicy, startChild, uuid4, workflowInfo } from '@temporalio/workflow';
import {
  type AcquireOptions,
  type ResolvedAcquire,
  type ResolvedSemaphore,
  resolveAcquire,
  resolveSemaphore,
  type SemaphoreOptions,
} from '../shared/options';
import { Patience } from '../shared/patience';
import { permitId } from '../shared/permit-id';
import { resolveRef } from '../shared/permit-ref';
import type { PermitMemo, PermitRef, Ticket } from '../shared/protocol';
import { shuffle } from '../shared/shuffle';
import { permitSummary } from '../shared/summary';
import { checked, PermitLostError, PermitTimeoutError } from './errors';
import { holdWhile } from './hold';
import { listenForRevocations } from './holder-inbox';
import { metrics, timeAcquire } from './metrics';
import { Permit } from './permit';
import { endOfAdopted, endOfChild } from './permit-end';
import { permitSlotWorkflow } from './permit-slot';
import { adoptSignal, tell } from './signals';
import { WaitingPlace } from './waiting-place';

const DEFAULTS = { leaseMs: 10 * 60_000, inWorkflow: true };

/**
 * Slots that an acquirer tries before it starts a line. Each that is taken costs it five history events, so where all are
 * taken fewer are better; where half are free, two find one three times in four.
 */
const FAST_ATTEMPTS = 2;

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
    return await holdWhile(await this.acquire(options), this.options.renewEveryMs, fn);
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
    const reference = checked(() => resolveRef(ref));
    const { workflowId, runId, workflowType } = workflowInfo();
    const permit = new Permit(reference, endOfAdopted(reference.runId), true);
    const delivery = await tell(reference, adoptSignal, { holder: { workflowId, runId, workflowType } });
    if (delivery !== 'delivered') throw new PermitLostError(reference, reference.runId, 'unknown');
    return permit;
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
    return await holdWhile(await Semaphore.adopt(ref), renewEveryMs, fn);
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
    const deadlineMs = Date.now() + request.timeoutMs;
    const timer = timeAcquire(this.resource);
    const slots = this.shuffledSlots();
    try {
      if (request.timeoutMs === 0) {
        const permit = await this.claimFirst(slots, request);
        if (permit) return timer.ended(permit);
        throw new PermitTimeoutError(this.resource, 0);
      }
      const place = new WaitingPlace(this.resource, this.ticketFor(request), this.options.taskQueue);
      try {
        const permit = await this.claimUnlessOthersWait(place, slots, request);
        return timer.ended(permit ?? (await this.waitInLine(place, request, deadlineMs)));
      } finally {
        await place.leave();
      }
    } catch (error) {
      throw timer.failed(error);
    }
  }

  /** Tries every slot once. `undefined` when all are busy. Throws as {@link acquire} does, but for the timeout. */
  async tryAcquire(options?: Omit<AcquireOptions, 'timeout'>): Promise<Permit | undefined> {
    const request = checked(() => resolveAcquire({ ...options, timeout: 0 }));
    const timer = timeAcquire(this.resource);
    try {
      return timer.ended(await this.claimFirst(this.shuffledSlots(), request));
    } catch (error) {
      throw timer.failed(error);
    }
  }

  /**
   * The first tries of a newcomer. Once a slot was taken (in strict order: before any), it asks whether there is a line, and
   * stands in it if so; else it tries another slot, and starts the line. `undefined` when it stands in line.
   */
  private async claimUnlessOthersWait(
    place: WaitingPlace,
    slots: readonly string[],
    request: ResolvedAcquire,
  ): Promise<Permit | undefined> {
    const asksBefore = this.options.fair ? 0 : 1;
    for (const [attempt, slot] of slots.slice(0, FAST_ATTEMPTS).entries()) {
      if (attempt === asksBefore && (await place.join())) return undefined;
      const permit = await this.claim(slot, request);
      if (permit) return permit;
    }
    await place.enqueue();
    return undefined;
  }

  /** Parked: nothing happens here until our turn comes, but for a look of our own now and then. */
  private async waitInLine(place: WaitingPlace, request: ResolvedAcquire, deadlineMs: number): Promise<Permit> {
    const patience = new Patience(this.options.recheckAfterMs);
    for (;;) {
      const leftMs = deadlineMs - Date.now();
      if (leftMs <= 0) throw new PermitTimeoutError(this.resource, request.timeoutMs);
      const turn = await place.nextTurn(Math.min(leftMs, patience.nextMs(Math.random())));
      if (turn?.slot !== undefined) {
        const turnMs = Date.now();
        const permit = await this.claim(turn.slot, request, turn.queueId);
        if (permit) {
          metrics.handoff(this.resource, 'claim', Date.now() - turnMs);
          return permit;
        }
        if (!(await place.missed(turn.slot))) await place.enqueue();
        patience.hadTurn();
      } else if (turn) {
        patience.hadNoRoom();
      } else if (Date.now() < deadlineMs) {
        const permit = await this.lookForOurselves(place, request);
        if (permit) return permit;
        patience.hadSilence();
      }
    }
  }

  /**
   * The queue has been silent for long. If it is gone, this starts it anew; if it is stuck, a slot may be free. In strict
   * order we may not overtake, so we try one only when the queue did not answer the last time.
   */
  private async lookForOurselves(place: WaitingPlace, request: ResolvedAcquire): Promise<Permit | undefined> {
    const mayTry = place.owesAnswer() || !this.options.fair;
    const queued = place.enqueue();
    try {
      if (!mayTry) return undefined;
      return await this.claimFirst(this.shuffledSlots().slice(0, 1), request);
    } finally {
      await queued;
    }
  }

  private ticketFor({ priority }: ResolvedAcquire): Ticket {
    const { workflowId, runId, priority: own } = workflowInfo();
    return {
      id: uuid4(),
      waiter: { workflowId, runId },
      slots: this.options.compactSlots,
      answer: this.options.fair || undefined,
      sinceMs: Date.now(),
      priorityKey: priority?.priorityKey || own?.priorityKey || undefined,
      fairnessKey: priority?.fairnessKey || own?.fairnessKey || undefined,
      fairnessWeight: priority?.fairnessWeight || own?.fairnessWeight || undefined,
    };
  }

  /** Shuffled, so that contenders do not all start at slot 0 and fail in step. */
  private shuffledSlots(): string[] {
    return shuffle(this.options.slots, Math.random);
  }

  private async claimFirst(slots: readonly string[], request: ResolvedAcquire): Promise<Permit | undefined> {
    for (const slot of slots) {
      const permit = await this.claim(slot, request);
      if (permit) return permit;
    }
    return undefined;
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
    const { workflowId, runId, workflowType } = workflowInfo();
    const memo: PermitMemo = { leaseMs, holder: { workflowId, runId, workflowType }, purpose };
    listenForRevocations();
    try {
      const child = await startChild(permitSlotWorkflow, {
        workflowId: permitId({ resource, slot }),
        args: [{ ...memo, watchedBy }],
        memo: { ...memo },
        staticSummary: permitSummary(workflowId, purpose),
        taskQueue,
        parentClosePolicy: outlivesRun ? ParentClosePolicy.ABANDON : ParentClosePolicy.TERMINATE,
        workflowExecutionTimeout: maxHoldMs,
      });
      const { firstExecutionRunId } = child;
      const ref = { resource, slot, workflowId: child.workflowId, runId: firstExecutionRunId, leaseMs };
      return new Permit(ref, endOfChild(child), outlivesRun);
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) return undefined;
      throw error;
    }
  }
}
