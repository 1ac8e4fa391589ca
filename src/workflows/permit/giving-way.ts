import { HandlerUnfinishedPolicy } from '@temporalio/common';
import { condition, defineUpdate, setHandler, upsertMemo, workflowInfo } from '@temporalio/workflow';
import { parsePermitId, queueId } from '../../shared/permit-id';
import {
  type Holder,
  type PermitInput,
  type PermitMemo,
  UNTIL_PREEMPTED,
  type WatchInput,
} from '../../shared/protocol';
import { isSignalTarget, readPreempt } from '../../shared/wire-input';
import { onSignal } from '../inbox';
import { deliver, deliverAfterReset, oneAtATime, preemptedSignal, preemptibleSignal, preemptSignal } from '../signals';
import { refuseWhenMoved } from '../takeover';

const untilPreemptedUpdate = defineUpdate<void>(UNTIL_PREEMPTED);

/**
 * How a holder gives way to a waiter of higher priority. The queue says which waiter asks. The permit alone decides whether the waiter
 * outranks its holder, and bounds the grace, so a queue that lies or dies can do no more than an honest one.
 *
 *     held --preempt of a higher priority--> giving way, the holder is told --release--> "released"
 *                                                                            '--grace over--> "preempted"
 */
export class GivingWay {
  /** When the permit ends even if its holder renews it. Infinity if no waiter has asked for the permit. */
  endsAtMs = Number.POSITIVE_INFINITY;
  private readonly terms: PermitInput['preemptible'];

  constructor(
    { preemptible }: PermitInput,
    private holder: Holder | undefined,
    /** A permit that already ends asks its holder for nothing. */
    private readonly isEnding: () => boolean,
  ) {
    this.terms = preemptible;
    if (!preemptible) return; // a signal without a handler waits, and costs nothing
    onSignal(preemptSignal, (payload) => {
      const waiter = readPreempt(payload);
      if (this.isEnding() || this.isGivingWay) return;
      if (waiter && waiter.priorityKey < preemptible.priorityKey) this.begin(preemptible.graceMs);
    });
    setHandler(untilPreemptedUpdate, () => condition(() => this.isGivingWay), {
      validator: refuseWhenMoved,
      // A permit that ends in another way leaves the update unanswered.
      unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
    });
  }

  /** Whether the grace is over. */
  get isOver(): boolean {
    return this.endsAtMs <= Date.now();
  }

  /** From now on, an adopter is the holder. */
  heldBy(holder: Holder): void {
    this.holder = holder;
    if (this.isGivingWay) this.tellHolder();
  }

  /** Tells a queue that asks that the holder may have to give way. */
  answer(watch: WatchInput): void {
    if (this.terms && watch?.preempt === true) this.tellQueue();
  }

  private readonly tellQueue = oneAtATime(async () => {
    const { workflowId, runId } = workflowInfo();
    const { resource = '', slot = '' } = parsePermitId(workflowId) ?? {};
    const givesWay = this.isGivingWay || undefined;
    if (this.terms)
      await deliver({ workflowId: queueId(resource) }, preemptibleSignal, { slot, runId, ...this.terms, givesWay });
  });

  private get isGivingWay(): boolean {
    return this.endsAtMs < Number.POSITIVE_INFINITY;
  }

  private begin(graceMs: number): void {
    this.endsAtMs = Date.now() + graceMs;
    upsertMemo({ preemptedUntilMs: this.endsAtMs } satisfies Partial<PermitMemo>);
    this.tellHolder();
  }

  /** A holder outside Workflows waits for the answer of its update. */
  private readonly tellHolder = oneAtATime(async () => {
    const { workflowId, runId } = workflowInfo();
    const notice = { workflowId, runId, endsAtMs: this.endsAtMs };
    if (isSignalTarget(this.holder)) await deliverAfterReset(this.holder, preemptedSignal, notice);
  });
}
