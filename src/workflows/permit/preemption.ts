import { HandlerUnfinishedPolicy } from '@temporalio/common';
import { condition, defineUpdate, setHandler, upsertMemo, workflowInfo } from '@temporalio/workflow';
import { parsePermitId, queueId } from '../../shared/permit-id';
import { type PreemptionMemo, UNTIL_PREEMPTED } from '../../shared/preemption-protocol';
import type { Holder, PermitInput, WatchInput } from '../../shared/protocol';
import { isSignalTarget, readPreempt } from '../../shared/wire-input';
import { onSignal } from '../signal-inbox';
import { deliver, deliverAfterReset, preemptedSignal, preemptibleSignal, preemptSignal } from '../signals';
import { oneAtATime } from './one-at-a-time';

const untilPreemptedUpdate = defineUpdate<void>(UNTIL_PREEMPTED);

/**
 * How a permit gives way. The queue says which waiter asks; the permit alone decides whether that outranks its holder, and bounds
 * the grace, so a queue that lies or dies can do no more than an honest one.
 *
 *     held --preempt of a higher priority--> giving way, the holder is told --release--> "released"
 *                                                                            '--grace over--> "preempted"
 */
export class Preemption {
  /** When the permit ends although its holder renews it. Infinity: nobody has asked for it. */
  endsAtMs = Number.POSITIVE_INFINITY;
  private readonly terms: PermitInput['preemptible'];

  constructor(
    { preemptible }: PermitInput,
    private holder: Holder | undefined,
    /** A permit that ends already asks its holder for nothing. */
    private readonly isEnding: () => boolean,
  ) {
    this.terms = preemptible;
    if (!preemptible) return; // a signal without a handler waits, and costs nothing
    onSignal(preemptSignal, (payload) => {
      const waiter = readPreempt(payload);
      if (this.isEnding() || this.givesWay) return;
      if (waiter && waiter.priorityKey < preemptible.priorityKey) this.begin(preemptible.graceMs);
    });
    setHandler(untilPreemptedUpdate, () => condition(() => this.givesWay), {
      // A permit that ends otherwise leaves it unanswered.
      unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
    });
  }

  /** The grace is over. */
  get isOver(): boolean {
    return this.endsAtMs <= Date.now();
  }

  /** An adopter is the holder from now on. */
  heldBy(holder: Holder): void {
    this.holder = holder;
    if (this.givesWay) this.tell();
  }

  /** Tells the queue that it may ask, if it wants to know. */
  answer(watch: WatchInput): void {
    if (this.terms && watch?.preempt === true) this.tellQueue();
  }

  private readonly tellQueue = oneAtATime(async () => {
    const { workflowId, runId } = workflowInfo();
    const { resource = '', slot = '' } = parsePermitId(workflowId) ?? {};
    const givesWay = this.givesWay || undefined;
    if (this.terms)
      await deliver({ workflowId: queueId(resource) }, preemptibleSignal, { slot, runId, ...this.terms, givesWay });
  });

  private get givesWay(): boolean {
    return this.endsAtMs < Number.POSITIVE_INFINITY;
  }

  private begin(graceMs: number): void {
    this.endsAtMs = Date.now() + graceMs;
    upsertMemo({ preemptedUntilMs: this.endsAtMs } satisfies PreemptionMemo);
    this.tell();
  }

  /** A holder outside Workflows waits for the answer of its update. */
  private readonly tell = oneAtATime(async () => {
    const { workflowId, runId } = workflowInfo();
    const notice = { workflowId, runId, endsAtMs: this.endsAtMs };
    if (isSignalTarget(this.holder)) await deliverAfterReset(this.holder, preemptedSignal, notice);
  });
}
