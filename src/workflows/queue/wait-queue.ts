import {
  allHandlersFinished,
  CancellationScope,
  continueAsNew,
  defineQuery,
  log,
  type SignalDefinition,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { resourceOfQueue } from '../../shared/permit-id';
import { type MissedNotice, QUEUE_VIEW, type QueueInput, type ShownView, type Ticket } from '../../shared/protocol';
import { listOf } from '../../shared/untyped';
import {
  readClosing,
  readDeclined,
  readInherit,
  readMissed,
  readPreemptible,
  readPriorityQuestion,
  readTicket,
} from '../../shared/wire-input';
import { onSignal, takeEarlySignals } from '../inbox';
import { metrics } from '../metrics';
import {
  askPrioritySignal,
  closingSignal,
  declinedSignal,
  deliverAfterReset,
  drainedSignal,
  enqueueSignal,
  inheritSignal,
  missedSignal,
  preemptibleSignal,
  turnSignal,
} from '../signals';
import { askOffered, carryOut, passOn } from './carry-out';
import { warnOfDisagreement } from './disagreement';
import { type HandedOn, handOn, readHandedOn, shown } from './handed-on';
import { Inheritance } from './inheritance';
import { acceptOverrides, hearOverrides } from './operator-orders';
import { Outbox } from './outbox';
import { atMost } from './queue-command';
import { QueueState, REMEMBER_HELD_MS } from './queue-state';
import { runLength } from './run-length';
import { Wakeup } from './wakeup';

const queueViewQuery = defineQuery<ShownView>(QUEUE_VIEW);

/** How long an empty queue stays for the next waiter, which would otherwise start a new queue that probes every slot again. */
const LINGER_MS = 2_000;

/**
 * The wait queue of one resource, `permit-queue:<resource>`. It runs while a caller waits, while an operator has set something,
 * and for a while when a permit that it watches is held. It grants nothing. It passes signals between the permits that it watches
 * and the waiters whose turn it is; `QueueState` decides which. If the queue is terminated, each waiter finds out
 * and tries slots by itself. A cancel request changes nothing, because others wait here.
 */
export async function waitQueueWorkflow(input?: QueueInput): Promise<void> {
  await CancellationScope.nonCancellable(() => keepQueue(input));
}

async function keepQueue(input?: QueueInput): Promise<void> {
  const { workflowId, continuedFromExecutionRunId, cronSchedule, retryPolicy } = workflowInfo();
  const resource = resourceOfQueue(workflowId);
  // Only a former run of this queue hands a state on. Any client may start a queue with any argument, and with a cron schedule, or retries,
  // the server gives this argument to each run.
  const isContinued = continuedFromExecutionRunId && !cronSchedule && !retryPolicy;
  const handedOn = isContinued ? readHandedOn(resource, input ?? {}) : undefined;
  const queue = new WaitQueue(workflowId, resource, handedOn);
  queue.hear();
  queue.takeIn(listOf(input?.tickets), handedOn);
  takeEarlySignals();
  if (handedOn) queue.askOffered();
  // Last, so that a command that came before this run began is carried out after the tickets that came before it.
  queue.acceptOrders();
  await queue.run();
}

/** One run of the queue: what it receives, what it sends, and when it ends or continues as new. */
class WaitQueue {
  private readonly state: QueueState;
  private readonly inheritance: Inheritance;
  private readonly wakeup = new Wakeup();
  private readonly outbox = new Outbox(this.wakeup.wake);
  /** Tickets of waiters that asked for a sign of life, and of waiters for which there is no room. */
  private readonly unanswered = new Map<string, Pick<Ticket, 'waiter'>>();

  constructor(
    private readonly queueId: string,
    private readonly resource: string,
    handedOn: HandedOn | undefined,
  ) {
    this.state = new QueueState(handedOn?.view);
    this.inheritance = new Inheritance(resource, this.state.inheriting(), handedOn?.unasked);
  }

  // --- What it receives ---

  hear(): void {
    const { resource, state, inheritance } = this;
    setHandler(queueViewQuery, () => shown(state.view()));
    this.on(preemptibleSignal, readPreemptible, (notice) => state.preemptible(notice, Date.now()));
    this.on(
      enqueueSignal,
      (payload) => readTicket(resource, payload),
      (ticket) => this.enqueue(ticket),
    );
    this.on(
      missedSignal,
      (payload) => readMissed(resource, payload),
      (notice) => this.missed(notice),
    );
    this.on(declinedSignal, readDeclined, ({ ticketId, runId }) => {
      if (state.declined(ticketId, runId)) metrics.turnUnused(resource, 'declined');
      if (!state.ticket(ticketId)) this.unanswered.delete(ticketId);
    });
    this.on(closingSignal, readClosing, (notice) => state.closing(notice));
    this.on(drainedSignal, readClosing, ({ slot, runId }) => state.drained(slot, runId));
    this.on(inheritSignal, readInherit, (it) => state.inherit(it.resource, it.priorityKey));
    this.on(askPrioritySignal, readPriorityQuestion, (it) => inheritance.asks(it.resource));
    hearOverrides(resource, state, this.wakeup.wake);
  }

  private on<T>(
    signal: SignalDefinition<[T]>,
    read: (payload: unknown) => T | undefined,
    handle: (it: T) => void,
  ): void {
    onSignal(signal, (payload: unknown) => {
      this.wakeup.wake();
      const message = read(payload);
      if (message) handle(message);
      // Without its content: a log entry that is nested deep enough ends the worker silently.
      else log.warn('A malformed signal was ignored.', { signal: signal.name, type: typeof payload });
    });
  }

  private enqueue(ticket: Ticket): void {
    warnOfDisagreement(this.resource, ticket.slots);
    if (!this.state.enqueue(ticket, Date.now()) || ticket.answer) this.unanswered.set(ticket.id, ticket);
  }

  private missed({ ticket, slot }: MissedNotice): void {
    metrics.turnUnused(this.resource, 'missed');
    if (!this.state.missed(ticket, slot, Date.now())) this.unanswered.set(ticket.id, ticket);
  }

  /** @param tickets the tickets with which the queue was started */
  takeIn(tickets: readonly unknown[], handedOn: HandedOn | undefined): void {
    for (const sent of tickets) {
      const ticket = readTicket(this.resource, sent);
      if (ticket) this.enqueue(ticket);
    }
    this.state.doubt(handedOn?.inDoubt ?? []);
    this.state.outrank(handedOn?.outranked ?? []);
    for (const ticketId of handedOn?.unanswered ?? []) {
      const ticket = this.state.ticket(ticketId);
      if (ticket) this.unanswered.set(ticketId, ticket);
    }
    for (const { id, waiter } of handedOn?.refused ?? []) this.unanswered.set(id, { waiter });
  }

  acceptOrders(): void {
    acceptOverrides(this.resource, this.state, this.wakeup.wake, () => this.act());
  }

  // --- What it sends ---

  askOffered(): void {
    this.outbox.send(() => askOffered(this.resource, this.state));
  }

  /** Does what is due now. */
  private act(): void {
    if (runLength() === 'overlong') return;
    const { resource, state, inheritance, outbox } = this;
    for (const command of state.next(Date.now(), outbox.room)) {
      if (command.do === 'refuse') this.unanswered.delete(command.ticket.id); // the refusal is its answer, and says why
      outbox.send(() => carryOut(command, resource, state, this.wakeup.wake));
    }
    for (const command of atMost(outbox.room, inheritance.moves(state, Date.now())))
      outbox.send(() => passOn(command, resource, inheritance));
    this.answer();
    metrics.waiters(resource, state.waitingCount);
  }

  /** Answers a few waiters at a time: all may ask at once. */
  private answer(): void {
    const { queueId, state } = this;
    for (const [ticketId, { waiter }] of this.unanswered) {
      if (this.outbox.room <= 0) return;
      this.unanswered.delete(ticketId);
      this.outbox.send(() =>
        deliverAfterReset(waiter, turnSignal, { queueId, ticketId, waiting: !!state.ticket(ticketId) || undefined }),
      );
    }
  }

  // --- Round by round ---

  /** Ends when the queue is not needed any more, or by continuing as new. */
  async run(): Promise<void> {
    const { state, wakeup } = this;
    for (;;) {
      const length = runLength();
      wakeup.beginRound();
      const mayContinue = length === 'overlong' || (length === 'long' && !this.owesWord);
      if (mayContinue && this.isQuiet) await this.continueAsNew();
      this.act();
      if (state.idle && this.isQuiet) {
        // A ticket that comes while the queue ends is not lost: the server rejects the completion, and the queue wakes up here.
        const lingerMs = state.awaitsClosing ? REMEMBER_HELD_MS : LINGER_MS;
        if (!(await wakeup.news(lingerMs)) && state.idle) return;
      } else {
        // What is due can't be done before an answer comes, which wakes the queue.
        const mustWait = length === 'overlong' || this.outbox.room <= 0;
        await wakeup.newsOr(mustWait ? Number.POSITIVE_INFINITY : state.dueMs());
      }
    }
  }

  private async continueAsNew(): Promise<never> {
    const { state, unanswered, inheritance } = this;
    metrics.waiters(this.resource, 0); // on this worker: another one may have the next run
    return await continueAsNew<typeof waitQueueWorkflow>(handOn(state, unanswered, inheritance.unasked(state)));
  }

  /** Whether no answer is awaited, neither by the queue nor by an operator. */
  private get isQuiet(): boolean {
    return this.outbox.isEmpty && allHandlersFinished();
  }

  /**
   * Whether the queue owes waiters or other queues a message. A run that is overlong hands on what it can't send, except for the answers to other
   * queues, which ask again.
   */
  private get owesWord(): boolean {
    const hasRefused = [...this.unanswered.keys()].some((ticketId) => !this.state.ticket(ticketId));
    return hasRefused || this.state.outranked.length > 0 || this.inheritance.owesWord(this.state);
  }
}
