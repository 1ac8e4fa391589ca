import { HandlerUnfinishedPolicy, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { condition, log, ParentClosePolicy, type SignalDefinition, startChild } from '@temporalio/workflow';
import type { LineMessage, Offer, Place } from '../../shared/acquirer';
import { fullOf, offerOf } from '../../shared/acquirer';
import { queueId } from '../../shared/permit-id';
import type { Ticket, Turn } from '../../shared/protocol';
import { WORKFLOW_PRIORITY } from '../../shared/request';
import { readTurn } from '../../shared/wire-input';
import { declinedSignal, deliver, enqueueSignal, hear, missedSignal, shielded, turnSignal } from '../signals';
import { waitQueueWorkflow } from './wait-queue';

/** A waiter rarely loses the race to start a queue twice. After this many steps it waits for the next silence, and tries again. */
const ENQUEUE_STEPS = 10;

/**
 * The place in the wait queue of an acquirer that is a Workflow: it joins the queue, receives its turn, and leaves nothing behind.
 *
 *     outside --enter--> waiting --offer--> called --missed--> waiting
 *                           |                  '--served--> outside
 *                           '----leave---------'--> outside (an offer that was not used goes to the next)
 */
export class WorkflowQueuePlace implements Place {
  /** The message that has come and that the acquirer has not taken yet. */
  private message: LineMessage | undefined;
  private openOffer: Offer | undefined;
  /** Whether the ticket may stand in the queue. */
  private inLine = false;
  /** Whether an answer of the queue is due. The queue also sends one to find out whether this Workflow still runs. */
  private isAsking = false;
  /** Whether the last message to the queue found none. */
  private queueAbsent = false;
  private readonly queue: { workflowId: string };

  /** @param relay waiters have this ticket one after the other; `missed`: at which slot the last waiter was beaten to its turn */
  constructor(
    private readonly resource: string,
    private readonly ticket: Ticket,
    private readonly taskQueue: string | undefined,
    private readonly relay?: { missed: string | undefined },
  ) {
    this.queue = { workflowId: queueId(resource) };
    hearTurns(ticket.id, (turn) => this.hear(turn));
  }

  async join(): Promise<boolean> {
    return await this.enqueue(this.ticket);
  }

  async enter(): Promise<void> {
    const missed = this.relay?.missed;
    if (missed !== undefined && (await this.tellMissed(missed))) return;
    await this.lineUp(this.ticket);
  }

  async ask(): Promise<void> {
    this.isAsking = true;
    await this.lineUp({ ...this.ticket, answer: true });
  }

  /** Cancellable. */
  async next(withinMs: number): Promise<LineMessage | undefined> {
    if (!this.message) await condition(() => this.message !== undefined, withinMs);
    const { message } = this;
    this.message = undefined;
    if (isOffer(message)) this.openOffer = message;
    return message;
  }

  async missed(): Promise<void> {
    const slot = this.openOffer?.slot;
    this.openOffer = undefined;
    if (slot === undefined || !(await this.tellMissed(slot))) await this.lineUp(this.ticket);
  }

  served(): void {
    this.openOffer = undefined;
    this.inLine = false; // the permit notifies the queue of its end
  }

  leave(): Promise<unknown> | undefined {
    const { id: ticketId, waiter } = this.ticket;
    hearNoMoreTurns(ticketId);
    const offer = this.openOffer ?? (isOffer(this.message) ? this.message : undefined);
    if (!this.inLine && !offer) return undefined;
    // A Workflow that was reset has the ticket of the run before: the queue would take this run for another waiter.
    const runId = this.relay ? waiter.runId : undefined;
    return deliver(this.queue, declinedSignal, { ticketId, slot: offer?.slot, runId });
  }

  private hear(turn: Turn): void {
    if (turn.queueId !== this.queue.workflowId) {
      leaveOut('comes from another queue');
    } else if (turn.giveWay) {
      if (this.ticket.givesWay && !isOffer(this.message)) this.message = 'give-way';
    } else if (turn.slot === undefined) {
      if (turn.waiting && !this.isAsking) return;
      this.isAsking = false;
      if (!isOffer(this.message) && this.message !== 'give-way') this.message = turn.waiting ? 'waiting' : fullOf(turn);
    } else {
      const offer = offerOf(turn, this.ticket.slots);
      if (offer) this.message = offer;
      else leaveOut("names a slot that is not this waiter's to claim");
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
    const delivery = await deliver(this.queue, signal, message);
    this.queueAbsent = delivery === 'not-found';
    if (delivery === 'refused') this.message ??= 'refused'; // a flood kept the queue from continuing as new in time
    return !this.queueAbsent;
  }

  /** `false` when another waiter has just started it. */
  private async startQueue(ticket: Ticket): Promise<boolean> {
    this.queueAbsent = false; // the queue runs now: this waiter has started it, or another one was faster
    const started = await startQueue(this.resource, this.taskQueue, [ticket]);
    this.inLine ||= started;
    return started;
  }
}

function isOffer(message: LineMessage | undefined): message is Offer {
  return typeof message === 'object';
}

/** Receives the turns of each place of this Workflow, by ticket. (The sandbox loads modules again for each Workflow: none shares them.) */
const listeners = new Map<string, (turn: Turn) => void>();

/** In a flood of turns, further turns are ignored: the server takes 2,000 messages at once, and with more, the task fails indefinitely. */
const MAX_HANDING_BACK = 100;
let handingBack = 0;

/** Calls `heard` with each turn for this ticket, as soon as it comes. */
function hearTurns(ticketId: string, heard: (turn: Turn) => void): void {
  listeners.set(ticketId, heard);
  hear(turnSignal, receive, {
    // A Workflow may end before it has declined a turn. The queue then finds no Workflow there, or waits until the offer times out.
    unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
  });
}

/** From now on a turn for this ticket goes back to the queue. */
function hearNoMoreTurns(ticketId: string): void {
  listeners.delete(ticketId);
}

/** Logs why a turn is ignored, without its content: any client may have sent it. */
function leaveOut(because: string): void {
  log.warn(`A permit-turn was ignored: it ${because}.`);
}

async function receive(payload: unknown): Promise<void> {
  const turn = readTurn(payload);
  if (!turn) {
    leaveOut('is malformed');
    return;
  }
  const { queueId: workflowId, ticketId, slot } = turn;
  const heard = listeners.get(ticketId);
  if (heard) heard(turn);
  else if (slot !== undefined && handingBack < MAX_HANDING_BACK) {
    handingBack++;
    await deliver({ workflowId }, declinedSignal, { ticketId, slot });
    handingBack--;
  }
}

/** Starts the queue of a resource. It outlives this Workflow, because others wait in it too. `false` if another waiter was faster. */
export async function startQueue(
  resource: string,
  taskQueue: string | undefined,
  tickets: Ticket[] = [],
): Promise<boolean> {
  try {
    await shielded(() =>
      startChild(waitQueueWorkflow, {
        workflowId: queueId(resource),
        args: [{ tickets }],
        taskQueue,
        parentClosePolicy: ParentClosePolicy.ABANDON,
        priority: WORKFLOW_PRIORITY,
      }),
    );
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}
