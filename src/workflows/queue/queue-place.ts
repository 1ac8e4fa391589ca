import { condition, type SignalDefinition } from '@temporalio/workflow';
import type { Offer, Place, Word } from '../../shared/acquirer';
import { queueId } from '../../shared/permit-id';
import type { Ticket, Turn } from '../../shared/protocol';
import { offersSlot } from '../../shared/wire-input';
import { declinedSignal, deliver, enqueueSignal, missedSignal } from '../signals';
import { startQueue } from './start-queue';
import { hearNoMoreTurns, hearTurns, leaveOut } from './turn-inbox';

/** More than one loss of the race to start a queue is rare; after this many steps the next silence tries again. */
const ENQUEUE_STEPS = 10;

/**
 * One acquirer's place in the wait queue of a resource, where it is a Workflow: lines up, hears its turn, and leaves without a
 * trace.
 *
 *     outside --enter--> waiting --offer--> called --missed--> waiting
 *                           |                  '--served--> outside
 *                           '----leave---------'--> outside (an offer that was not used goes to the next)
 */
export class WorkflowQueuePlace implements Place {
  /** The word that has come and is not heeded yet. */
  private word: Word | undefined;
  private openOffer: Offer | undefined;
  /** Whether our ticket may stand in the queue. */
  private inLine = false;
  /** Whether the queue was not there when we last spoke to it. */
  private queueAbsent = false;
  private readonly queue: { workflowId: string };

  /** @param shift where waiters have this ticket one after the other: at which slot the last one was beaten to its turn */
  constructor(
    private readonly resource: string,
    private readonly ticket: Ticket,
    private readonly taskQueue: string | undefined,
    private readonly shift?: { missed: string | undefined },
  ) {
    this.queue = { workflowId: queueId(resource) };
    hearTurns(ticket.id, (turn) => this.hear(turn));
  }

  async join(): Promise<boolean> {
    return await this.enqueue(this.ticket);
  }

  async enter(): Promise<void> {
    const missed = this.shift?.missed;
    if (missed !== undefined && (await this.tellMissed(missed))) return;
    await this.lineUp(this.ticket);
  }

  async ask(): Promise<void> {
    await this.lineUp({ ...this.ticket, answer: true });
  }

  /** Cancellable. */
  async next(withinMs: number): Promise<Word | undefined> {
    if (!this.word) await condition(() => this.word !== undefined, withinMs);
    const { word } = this;
    this.word = undefined;
    if (isOffer(word)) this.openOffer = word;
    return word;
  }

  async missed(): Promise<void> {
    const slot = this.openOffer?.slot;
    this.openOffer = undefined;
    if (slot === undefined || !(await this.tellMissed(slot))) await this.lineUp(this.ticket);
  }

  served(): void {
    this.openOffer = undefined;
    this.inLine = false; // the queue hears of our permit's end
  }

  leave(): Promise<unknown> | undefined {
    const { id: ticketId, waiter } = this.ticket;
    hearNoMoreTurns(ticketId);
    const offer = this.openOffer ?? (isOffer(this.word) ? this.word : undefined);
    if (!this.inLine && !offer) return undefined;
    // A Workflow that was reset has the ticket of the run before: the queue would take this run for another waiter.
    const runId = this.shift ? waiter.runId : undefined;
    return deliver(this.queue, declinedSignal, { ticketId, slot: offer?.slot, runId });
  }

  private hear(turn: Turn): void {
    if (turn.queueId !== this.queue.workflowId) {
      leaveOut('comes from another queue');
    } else if (turn.slot === undefined) {
      if (!isOffer(this.word)) this.word = turn.waiting ? 'waiting' : 'full';
    } else if (offersSlot(turn, this.ticket.slots)) {
      this.word = { slot: turn.slot, queueId: turn.queueId, capacity: turn.capacity };
    } else {
      leaveOut("names a slot that is not this waiter's to claim");
    }
  }

  /** Sends the ticket, and starts the queue if there is none. */
  private async lineUp(ticket: Ticket): Promise<void> {
    for (let step = 0; step < ENQUEUE_STEPS; step++) {
      if (this.queueAbsent ? await this.startQueue(ticket) : await this.enqueue(ticket)) return;
    }
  }

  /** A ticket counts once, however often it is sent. */
  private async enqueue(ticket: Ticket): Promise<boolean> {
    const joined = await this.tellQueue(enqueueSignal, ticket);
    this.inLine ||= joined;
    return joined;
  }

  private async tellMissed(slot: string): Promise<boolean> {
    this.inLine = true;
    return await this.tellQueue(missedSignal, { ticket: this.ticket, slot });
  }

  /** `false` when there is no queue. */
  private async tellQueue<T>(signal: SignalDefinition<[T]>, message: T): Promise<boolean> {
    this.queueAbsent = (await deliver(this.queue, signal, message)) === 'not-found';
    return !this.queueAbsent;
  }

  /** `false` when another waiter has just started it. */
  private async startQueue(ticket: Ticket): Promise<boolean> {
    this.queueAbsent = false; // it runs now: we have started it, or another waiter was faster
    const started = await startQueue(this.resource, this.taskQueue, [ticket]);
    this.inLine ||= started;
    return started;
  }
}

function isOffer(word: Word | undefined): word is Offer {
  return typeof word === 'object';
}
