import { HandlerUnfinishedPolicy, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  CancellationScope,
  condition,
  ParentClosePolicy,
  type SignalDefinition,
  setHandler,
  startChild,
} from '@temporalio/workflow';
import { queueId } from '../shared/permit-id';
import type { Ticket, Turn } from '../shared/protocol';
import { isWorkflowId } from '../shared/wire-input';
import { declinedSignal, enqueueSignal, missedSignal, tell, turnSignal } from './signals';
import { waitQueueWorkflow } from './wait-queue';

/** The places of this Workflow in all queues, by ticket. (A Workflow's sandbox loads modules anew: it shares them with none.) */
const places = new Map<string, WaitingPlace>();

/** More than one loss of the race to start a queue is rare; after this many steps the fallback timer tries again. */
const ENQUEUE_STEPS = 10;

/**
 * One acquirer's place in the wait queue of a resource: lines up, hears its turn, and leaves without a trace.
 *
 *     outside --enqueue--> waiting --turn--> called --missed--> waiting
 *                             '-------leave------'--> outside (a turn that comes too late goes to the next)
 */
export class WaitingPlace {
  private turn: Turn | undefined;
  /** Whether our ticket may stand in the queue. */
  private inLine = false;
  /** Whether the queue was not there when we last spoke to it. */
  private queueAbsent = false;
  /** What we know of the queue: whether it still owes us the sign of life that our ticket asks for. */
  private answer: 'not asked' | 'owed' | 'given' = 'not asked';
  private readonly queue: { workflowId: string };

  constructor(
    resource: string,
    private readonly ticket: Ticket,
    private readonly taskQueue: string | undefined,
  ) {
    this.queue = { workflowId: queueId(resource) };
    places.set(ticket.id, this);
    listenForTurns();
  }

  /** Lines up if somebody waits already. It also renews a place: a ticket counts once, however often it is sent. */
  async join(): Promise<boolean> {
    const joined = await this.tellQueue(enqueueSignal, this.ticket);
    this.inLine ||= joined;
    return joined;
  }

  /** Lines up, and starts the queue if there is none. */
  async enqueue(): Promise<void> {
    for (let step = 0; step < ENQUEUE_STEPS; step++) {
      if (this.queueAbsent ? await this.startQueue() : await this.join()) return;
    }
  }

  /** Waits for the turn; `undefined` when it did not come in time. Cancellable. */
  async nextTurn(withinMs: number): Promise<Turn | undefined> {
    if (!this.turn) await condition(() => this.turn !== undefined, withinMs);
    const { turn } = this;
    this.turn = undefined;
    if (turn) this.inLine = false;
    return turn;
  }

  /**
   * Whether the queue has not answered since this was asked last, so that it must be dead or stuck. Asked before each
   * {@link enqueue} that renews the place.
   */
  owesAnswer(): boolean {
    const owed = this.answer === 'owed';
    this.answer = 'owed';
    return owed;
  }

  /** Says that somebody else was faster at `slot`. The place is kept; `false` if the queue is gone. */
  async missed(slot: string): Promise<boolean> {
    this.inLine = true;
    return await this.tellQueue(missedSignal, { ticket: this.ticket, slot });
  }

  /**
   * Gives the place up, and passes on a turn that came too late. Without it the queue would learn that at our turn only.
   * Nothing to say when we leave with our turn: the queue hears of our permit's end.
   */
  async leave(): Promise<void> {
    places.delete(this.ticket.id);
    if (!this.inLine && !this.turn) return;
    await tell(this.queue, declinedSignal, { ticketId: this.ticket.id, slot: this.turn?.slot });
  }

  /** @internal */
  call(turn: Turn): void {
    if (turn.waiting) this.answer = 'given';
    else this.turn = turn;
  }

  /** `false` when there is no queue. */
  private async tellQueue<T>(signal: SignalDefinition<[T]>, message: T): Promise<boolean> {
    this.queueAbsent = (await tell(this.queue, signal, message)) === 'not-found';
    return !this.queueAbsent;
  }

  /** `false` when somebody else has just started it. It outlives us: others wait in it too. */
  private async startQueue(): Promise<boolean> {
    this.queueAbsent = false; // it runs now, whether by us or by whoever was faster
    try {
      await CancellationScope.nonCancellable(() =>
        startChild(waitQueueWorkflow, {
          workflowId: this.queue.workflowId,
          args: [{ tickets: [this.ticket] }],
          taskQueue: this.taskQueue,
          parentClosePolicy: ParentClosePolicy.ABANDON,
        }),
      );
      this.inLine = true;
      return true;
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
      throw error;
    }
  }
}

function listenForTurns(): void {
  setHandler(
    turnSignal,
    async (turn: Turn) => {
      const place = places.get(turn?.ticketId);
      if (place) place.call(turn);
      else if (isWorkflowId(turn?.queueId) && turn.slot !== undefined) {
        await tell({ workflowId: turn.queueId }, declinedSignal, { ticketId: turn.ticketId, slot: turn.slot });
      }
    },
    // A Workflow may end without having declined: the queue then finds nobody there, or waits out the offer.
    { unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON },
  );
}
