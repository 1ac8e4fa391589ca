import {
  ApplicationFailure,
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  defineUpdate,
  log,
  type SignalDefinition,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { resourceOfQueue } from '../../shared/permit-id';
import {
  type MissedNotice,
  OVERRIDE,
  type OverrideInput,
  type OverrideState,
  QUEUE_VIEW,
  type QueueInput,
  type ShownView,
  type SlotsMark,
  STALE_OVERRIDE,
  type Ticket,
} from '../../shared/protocol';
import { type Slots, slotsMark } from '../../shared/slots';
import { listOf } from '../../shared/untyped';
import {
  isOverride,
  readClosing,
  readDeclined,
  readInherit,
  readMissed,
  readPreemptible,
  readPriorityQuestion,
  readTicket,
} from '../../shared/wire-input';
import { onSignal, refuseWhenMoved, takeEarlySignals } from '../inbox';
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
  overrideSignal,
  preemptibleSignal,
  shielded,
  turnSignal,
} from '../signals';
import { askOffered, carryOut, passOn } from './carry-out';
import { handOn, readHandedOn, shown } from './handed-on';
import { Inheritance } from './inheritance';
import { atMost } from './queue-command';
import { HELD_UNSEEN_MS, QueueState } from './queue-state';

const queueViewQuery = defineQuery<ShownView>(QUEUE_VIEW);

/** How long an empty queue stays for the next waiter, which would otherwise start one and probe every slot anew. */
const LINGER_MS = 2_000;

/**
 * How many signals the queue has under way at once. The server takes 2,000; with more, the Workflow Task fails for ever. But a thousand
 * commands in one task, and their answers, take seconds.
 */
const MAX_SENDING = 64;

/**
 * The wait queue of one resource, `permit-queue:<resource>`. It runs while somebody waits, while an operator has set something,
 * and for a while when a permit that it watches is held. It grants nothing. It moves signals between the permits that it watches
 * and the waiters whose turn it is; `QueueState` decides which. When somebody terminates the queue, each waiter finds out
 * and tries slots by itself. A cancel request changes nothing, because others wait here.
 */
export async function waitQueueWorkflow(input?: QueueInput): Promise<void> {
  await CancellationScope.nonCancellable(() => keepQueue(input));
}

async function keepQueue(input?: QueueInput): Promise<void> {
  const { workflowId: queueId, continuedFromExecutionRunId, cronSchedule, retryPolicy } = workflowInfo();
  const resource = resourceOfQueue(queueId);
  // Only a former run of this queue hands a state on. Anybody may start a queue with any argument, and with a cron schedule, or retries,
  // the server gives this argument to each run.
  const isContinued = continuedFromExecutionRunId && !cronSchedule && !retryPolicy;
  const handedOn = isContinued ? readHandedOn(resource, input ?? {}, Date.now()) : undefined;
  const state = new QueueState(handedOn?.view);
  const inheritance = new Inheritance(resource, state.inheriting());
  const alarm = new Alarm();
  /** How often something has woken the queue since its last round. */
  let wakes = 1;
  const wake = () => {
    wakes++;
  };
  let sending = 0;

  /** Tickets of waiters that asked for a sign of life, and of waiters for which there is no room. */
  const unanswered = new Map<string, Ticket>();

  const take = (ticket: Ticket) => {
    warnOfDisagreement(resource, ticket.slots);
    if (!state.enqueue(ticket, Date.now()) || ticket.answer) unanswered.set(ticket.id, ticket);
  };
  const miss = ({ ticket, slot }: MissedNotice) => {
    metrics.turnUnused(resource, 'missed');
    if (!state.missed(ticket, slot, Date.now())) unanswered.set(ticket.id, ticket);
  };
  function on<T>(signal: SignalDefinition<[T]>, read: (payload: unknown) => T | undefined, handle: (it: T) => void) {
    onSignal(signal, (payload: unknown) => {
      wake();
      const message = read(payload);
      if (message) handle(message);
      // Without its content: a log entry that is nested deep enough ends the worker without a word.
      else log.warn('A malformed signal was left out.', { signal: signal.name, type: typeof payload });
    });
  }
  setHandler(queueViewQuery, () => shown(state.view()));
  on(preemptibleSignal, readPreemptible, (notice) => state.preemptible(notice, Date.now()));
  on(enqueueSignal, (payload) => readTicket(resource, payload), take);
  on(missedSignal, (payload) => readMissed(resource, payload), miss);
  on(declinedSignal, readDeclined, ({ ticketId, runId }) => {
    if (state.declined(ticketId, runId)) metrics.turnUnused(resource, 'declined');
    if (!state.ticket(ticketId)) unanswered.delete(ticketId);
  });
  on(closingSignal, readClosing, (notice) => state.closing(notice));
  on(drainedSignal, readClosing, ({ slot, runId }) => state.drained(slot, runId));
  on(inheritSignal, readInherit, (it) => state.inherit(it.resource, it.priorityKey));
  on(askPrioritySignal, readPriorityQuestion, (it) => inheritance.asks(it.resource));
  hearOverrides(resource, state, wake);
  for (const sent of listOf(input?.tickets)) {
    const ticket = readTicket(resource, sent);
    if (ticket) take(ticket);
  }
  state.doubt(handedOn?.inDoubt ?? []);
  for (const ticketId of handedOn?.unanswered ?? []) {
    const ticket = state.ticket(ticketId);
    if (ticket) unanswered.set(ticketId, ticket);
  }
  takeEarlySignals();

  /** Sends without waiting for the answer. The queue continues as new only when no answer is due. */
  function send(message: () => Promise<unknown>): void {
    sending++;
    void message().then(() => {
      sending--;
      wake();
    });
  }

  const hasRefused = () => [...unanswered.keys()].some((ticketId) => !state.ticket(ticketId));

  /** Whether waiters or other queues are to be told something of which the next run would not know. */
  const owesWord = () => hasRefused() || state.hasOutranked || inheritance.owesQuestion(state);

  /** Answers a few waiters at a time: all may ask at once. */
  function answer(): void {
    for (const [ticketId, { waiter }] of unanswered) {
      if (sending >= MAX_SENDING) return;
      unanswered.delete(ticketId);
      send(() =>
        deliverAfterReset(waiter, turnSignal, { queueId, ticketId, waiting: !!state.ticket(ticketId) || undefined }),
      );
    }
  }

  /** Does what is due now. */
  function act(): void {
    if (runLength() === 'overlong') return;
    for (const command of state.next(Date.now(), MAX_SENDING - sending))
      send(() => carryOut(command, resource, state, wake));
    for (const command of atMost(MAX_SENDING - sending, inheritance.moves(state, Date.now())))
      send(() => passOn(command, resource, inheritance));
    answer();
    metrics.waiters(resource, state.waitingCount);
  }

  if (handedOn) send(() => askOffered(resource, state));
  // Last: an order that came before this run began is carried out here, and the tickets that came before it count.
  acceptOverrides(resource, state, wake, act);

  for (;;) {
    const length = runLength();
    wakes = 0;
    const mayEnd = length === 'overlong' || (length === 'long' && !owesWord());
    if (mayEnd && sending === 0 && allHandlersFinished()) {
      metrics.waiters(resource, 0); // on this worker: another one may have the next run
      await continueAsNew<typeof waitQueueWorkflow>(handOn(state.view(), unanswered.keys(), state.inDoubt));
    }
    act();
    if (state.idle && sending === 0 && allHandlersFinished()) {
      // A ticket that comes as the queue ends is not lost. The server rejects the completion, and the queue wakes here.
      const lingerMs = state.awaitsClosing ? HELD_UNSEEN_MS : LINGER_MS;
      if (!(await condition(() => wakes > 0, lingerMs)) && state.idle) return;
    } else {
      // What is due can't be done before an answer comes, which wakes the queue.
      const mustWait = length === 'overlong' || sending >= MAX_SENDING;
      alarm.setFor(mustWait ? Number.POSITIVE_INFINITY : state.dueMs());
      await condition(() => wakes > 0 || alarm.hasRung());
    }
  }
}

/** One timer, left alone while it rings early enough: a timer for each wake would fill the history. */
class Alarm {
  private ringsAtMs = Number.POSITIVE_INFINITY;
  private rung = false;

  setFor(dueMs: number): void {
    this.rung = false;
    if (dueMs >= this.ringsAtMs) return;
    this.ringsAtMs = dueMs;
    void sleep(Math.max(1, dueMs - Date.now())).then(() => {
      if (this.ringsAtMs !== dueMs) return; // an earlier timer has replaced this one
      this.ringsAtMs = Number.POSITIVE_INFINITY;
      this.rung = true;
    });
  }

  hasRung(): boolean {
    return this.rung;
  }
}

/**
 * A run's length at which the queue continues as new as soon as it awaits no answer. The server suggests this only at 4,096. But a
 * worker that has lost the run from its cache replays the whole run before the next turn.
 */
const LONG_EVENTS = 2_000;

/** … and at which the queue sends nothing more until all answers are in. The server ends a run of 51,200 events, or of 50 MB. */
const OVERLONG = { events: 4_000, bytes: 16_000_000 };

/**
 * Says when the queue is to continue as new. The server fails this step if a signal came while the task was under way. The worker
 * then replays the run, and meanwhile the server refuses signals, so that the second try succeeds. The decision depends on the
 * history's length alone, so the second try decides the same. A short run keeps the replay short.
 */
function runLength(): 'short' | 'long' | 'overlong' {
  const { historyLength, historySize, continueAsNewSuggested } = workflowInfo();
  if (historyLength >= OVERLONG.events || historySize >= OVERLONG.bytes) return 'overlong';
  return continueAsNewSuggested || historyLength >= LONG_EVENTS ? 'long' : 'short';
}

const overrideUpdate = defineUpdate<OverrideState, [OverrideInput]>(OVERRIDE);

/** How long an operator waits at most until the free slots are out of use. 20 slots take a second, 1,000 take longer than this. */
const IN_FORCE_WITHIN_MS = 5_000;

/** Lets Workflows resize and pause the resource: they can't send an update. */
function hearOverrides(resource: string, state: QueueState, wake: () => void): void {
  onSignal(overrideSignal, (input) => {
    try {
      check(resource, input, state);
    } catch (error) {
      if (!(error instanceof ApplicationFailure)) throw error;
      log.warn(`An override by signal was left out: ${error.message}.`);
      return;
    }
    wake();
    state.setOverride(input, Date.now());
  });
}

/**
 * Lets operators resize and pause the resource.
 *
 * @param act does what is due without the order: what came before it counts
 */
function acceptOverrides(resource: string, state: QueueState, wake: () => void, act: () => void): void {
  const takeInForce = async (input: OverrideInput) => {
    check(resource, input, state);
    act();
    wake();
    const taken = state.setOverride(input, Date.now());
    const isOver = () => state.isInForce || state.overridden?.version !== taken.version;
    if (!isOver()) await shielded(() => condition(isOver, IN_FORCE_WITHIN_MS));
    wake(); // the queue may have waited for this answer before it ends
    return taken;
  };
  setHandler(overrideUpdate, takeInForce, { validator: (_input: OverrideInput) => refuseWhenMoved() });
}

/** Refuses an order that can't be, before it changes anything. */
function check(resource: string, input: OverrideInput, state: QueueState): void {
  if (!isOverride(resource, input)) {
    throw ApplicationFailure.nonRetryable('expected slots, and a capacity or a pause of them', 'InvalidOptionsError');
  }
  if (!state.canSet(input)) {
    throw ApplicationFailure.nonRetryable('the line is too long for so many slots', 'InvalidOptionsError');
  }
  const current = state.overridden;
  if (input.ifVersion !== undefined && input.ifVersion !== (current?.version ?? 0)) {
    throw ApplicationFailure.nonRetryable('the override is of another version', STALE_OVERRIDE, current);
  }
}

/** A run warns of so many different opinions at most. */
const MAX_MARKS = 10;

/** The slots that the waiters of this run take the resource to have. (Module state belongs to one Workflow.) */
const marks = new Set<SlotsMark>();
let last: Slots | undefined;

/** Logs that waiters disagree on the slots of the resource: once in a run for each opinion. */
function warnOfDisagreement(resource: string, slots: Slots): void {
  if (isLast(slots) || marks.size >= MAX_MARKS) return;
  last = slots;
  const mark = slotsMark(slots);
  if (marks.has(mark)) return;
  marks.add(mark);
  if (marks.size < 2) return;
  log.warn('Acquirers disagree on the slots of a resource, so the larger number holds.', {
    resource,
    slots: [...marks].join(', '),
  });
}

/** Nearly all waiters name the same slots, and a thousand names are long to hash. */
function isLast(slots: Slots): boolean {
  if (typeof slots === 'number' || typeof last === 'number' || last === undefined) return slots === last;
  const names = last;
  return slots.length === names.length && slots.every((name, index) => name === names[index]);
}
