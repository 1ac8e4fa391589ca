import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  log,
  type SignalDefinition,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { resourceOfQueue } from '../../shared/permit-id';
import type { MissedNotice, Ticket } from '../../shared/protocol';
import { QUEUE_VIEW, type QueueInput, type ShownView } from '../../shared/queue-view';
import {
  listOf,
  readClosing,
  readDeclined,
  readInherit,
  readMissed,
  readPriorityQuestion,
  readTicket,
} from '../../shared/wire-input';
import { metrics } from '../metrics';
import { onSignal } from '../signal-inbox';
import {
  askPrioritySignal,
  closingSignal,
  declinedSignal,
  deliverAfterReset,
  drainedSignal,
  enqueueSignal,
  inheritSignal,
  missedSignal,
  turnSignal,
} from '../signals';
import { acceptAnswers } from './accept-answers';
import { acceptOverrides } from './accept-overrides';
import { Alarm } from './alarm';
import { askOffered, carryOut, passOn } from './carry-out';
import { readHandedOn, shown } from './handed-on';
import { Inheritance } from './inheritance';
import { PreemptingQueueState } from './preempting-queue-state';
import { atMost } from './queue-command';
import { HELD_UNSEEN_MS } from './queue-state';
import { runLength } from './run-length';
import { warnOfDisagreement } from './warn-of-disagreement';

const queueViewQuery = defineQuery<ShownView>(QUEUE_VIEW);

/** How long an empty queue stays for the next waiter, which would otherwise start one and probe every slot anew. */
const LINGER_MS = 2_000;

/**
 * How many signals the queue has under way at once. The server takes 2,000; with more, the task fails for ever. But a thousand
 * commands in one task, and their answers, take seconds.
 */
const MAX_SENDING = 64;

/**
 * The wait queue of one resource, `permit-queue:<resource>`. It runs while somebody waits, while an operator has set something,
 * and for a while when a permit that it watches is held. It grants nothing. It moves signals between the permits that it watches
 * and the waiters whose turn it is; {@link PreemptingQueueState} decides which. When somebody terminates it, each waiter finds out
 * and tries slots by itself. A cancel request changes nothing, because others wait here.
 */
export async function waitQueueWorkflow(input?: QueueInput): Promise<void> {
  await CancellationScope.nonCancellable(() => keepQueue(input));
}

async function keepQueue(input?: QueueInput): Promise<void> {
  const { workflowId: queueId, continuedFromExecutionRunId, cronSchedule, retryPolicy } = workflowInfo();
  const resource = resourceOfQueue(queueId);
  // Only a former run of this queue hands a state on. Anybody may start a queue with anything; and with a cron schedule, or retries,
  // the server gives that to each run.
  const isContinued = continuedFromExecutionRunId && !cronSchedule && !retryPolicy;
  const handedOn = isContinued ? readHandedOn(resource, input ?? {}, Date.now()) : undefined;
  const state = new PreemptingQueueState(handedOn?.view);
  const inheritance = new Inheritance(resource);
  const alarm = new Alarm();
  /** How much has happened since the last look. */
  let stirs = 1;
  const stir = () => {
    stirs++;
  };
  let sending = 0;

  /** Waiters that asked for a sign of life, and waiters for which there is no room. */
  const unanswered = new Map<string, Ticket>();

  const take = (ticket: Ticket) => {
    warnOfDisagreement(resource, ticket.slots);
    if (!state.enqueue(ticket) || ticket.answer) unanswered.set(ticket.id, ticket);
  };
  const miss = ({ ticket, slot }: MissedNotice) => {
    metrics.turnUnused(resource, 'missed');
    if (!state.missed(ticket, slot)) unanswered.set(ticket.id, ticket);
  };
  function on<T>(signal: SignalDefinition<[T]>, read: (payload: unknown) => T | undefined, handle: (it: T) => void) {
    onSignal(signal, (payload: unknown) => {
      stir();
      const message = read(payload);
      if (message) handle(message);
      // Without its content: a log entry that is nested deep enough ends the worker without a word.
      else log.warn('A malformed signal was left out.', { signal: signal.name, type: typeof payload });
    });
  }
  setHandler(queueViewQuery, () => shown(state.view()));
  acceptOverrides(resource, state, stir);
  acceptAnswers(state, stir);
  on(enqueueSignal, (payload) => readTicket(resource, payload), take);
  on(missedSignal, (payload) => readMissed(resource, payload), miss);
  on(declinedSignal, readDeclined, ({ ticketId, runId }) => {
    if (state.declined(ticketId, runId)) metrics.turnUnused(resource, 'declined');
    if (!state.ticket(ticketId)) unanswered.delete(ticketId);
  });
  on(closingSignal, readClosing, ({ slot, runId }) => state.closing(slot, runId));
  on(drainedSignal, readClosing, ({ slot, runId }) => state.drained(slot, runId));
  on(inheritSignal, readInherit, (it) => state.inherit(it.resource, it.priorityKey));
  on(askPrioritySignal, readPriorityQuestion, (it) => inheritance.asks(it.resource));
  for (const sent of listOf(input?.tickets)) {
    const ticket = readTicket(resource, sent);
    if (ticket) take(ticket);
  }
  state.doubt(handedOn?.inDoubt ?? []);
  for (const ticketId of handedOn?.unanswered ?? []) {
    const ticket = state.ticket(ticketId);
    if (ticket) unanswered.set(ticketId, ticket);
  }

  /** Sends without waiting for the answer. The queue continues as new only when no answer is due. */
  function send(message: () => Promise<unknown>): void {
    sending++;
    void message().then(() => {
      sending--;
      stir();
    });
  }

  const hasRefused = () => [...unanswered.keys()].some((ticketId) => !state.ticket(ticketId));

  /** Answers a few at a time: all may ask at once. */
  function answer(): void {
    for (const [ticketId, { waiter }] of unanswered) {
      if (sending >= MAX_SENDING) return;
      unanswered.delete(ticketId);
      send(() =>
        deliverAfterReset(waiter, turnSignal, { queueId, ticketId, waiting: !!state.ticket(ticketId) || undefined }),
      );
    }
  }

  if (handedOn) send(() => askOffered(resource, state));

  for (;;) {
    const length = runLength();
    stirs = 0;
    // A waiter without room is told first: the next run would not know of it.
    const mayEnd = length === 'overlong' || (length === 'long' && !hasRefused());
    if (mayEnd && sending === 0 && allHandlersFinished()) {
      metrics.waiters(resource, 0); // on this worker: another one may have the next run
      await continueAsNew<typeof waitQueueWorkflow>({
        tickets: [],
        view: shown(state.view()),
        unanswered: [...unanswered.keys()].filter((ticketId) => state.ticket(ticketId)),
        inDoubt: state.inDoubt,
      });
    }
    if (length !== 'overlong') {
      for (const command of state.next(Date.now(), MAX_SENDING - sending))
        send(() => carryOut(command, resource, state, stir));
      for (const command of atMost(MAX_SENDING - sending, inheritance.moves(state.waiting(), Date.now())))
        send(() => passOn(command, resource, inheritance));
      answer();
      metrics.waiters(resource, state.waitingCount);
    }
    if (state.idle && sending === 0 && allHandlersFinished()) {
      // A ticket that comes as the queue ends is not lost. The server rejects the completion, and the queue wakes here.
      const lingerMs = state.awaitsClosing ? HELD_UNSEEN_MS : LINGER_MS;
      if (!(await condition(() => stirs > 0, lingerMs)) && state.idle) return;
    } else {
      // What is due can't be done before an answer comes, which wakes the queue.
      const mustWait = length === 'overlong' || sending >= MAX_SENDING;
      alarm.setFor(mustWait ? Number.POSITIVE_INFINITY : state.dueMs());
      await condition(() => stirs > 0 || alarm.hasRung());
    }
  }
}
