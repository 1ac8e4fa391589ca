import {
  ApplicationFailure,
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
import { permitId, resourceOfQueue } from '../shared/permit-id';
import {
  OVERRIDE,
  type OverrideInput,
  type OverrideState,
  QUEUE_VIEW,
  type QueueInput,
  type QueueView,
  STALE_OVERRIDE,
  type Ticket,
} from '../shared/protocol';
import { wantsSlot } from '../shared/slots';
import { isClosingNotice, isDeclinedNotice, isMissedNotice, isOverride, isTicket } from '../shared/wire-input';
import { claimDrain } from './drain';
import { metrics } from './metrics';
import { type QueueCommand, QueueState } from './queue-state';
import {
  closingSignal,
  declinedSignal,
  enqueueSignal,
  missedSignal,
  releaseSignal,
  renewSignal,
  tell,
  turnSignal,
  watchSignal,
} from './signals';

export const queueViewQuery = defineQuery<QueueView>(QUEUE_VIEW);
const overrideUpdate = defineUpdate<OverrideState, [OverrideInput]>(OVERRIDE);

/** How long an empty queue stays for the next waiter, who would otherwise start one and probe every slot anew. */
const LINGER_MS = 2_000;

/** The server suggests it at 4,096. */
const CONTINUE_AT_EVENTS = 3_000;

/** A Workflow may have 2,000 signals on their way, and with more than that its task fails for ever. Slots have up to 1,000. */
const MAX_ANSWERING = 500;

/**
 * The wait queue of one resource, `permit-queue:<resource>`. It exists only while somebody waits or an operator has set
 * something. It decides nothing about who holds a permit: it moves signals between the permits that it watches and the
 * waiters whose turn it is, as {@link QueueState} says. If it is terminated, every waiter finds out and looks for itself.
 */
export async function waitQueueWorkflow(input?: QueueInput): Promise<void> {
  const queueId = workflowInfo().workflowId;
  const resource = resourceOfQueue(queueId);
  const state = new QueueState(input?.view);
  const alarm = new Alarm();
  let stirred = true;
  let sending = 0;

  /** Those to be told that they wait, as they asked for a sign of life, or that there is no room for them. */
  const unanswered = new Map<string, Ticket>();

  const take = (ticket: Ticket) => {
    if (!state.enqueue(ticket) || ticket.answer) unanswered.set(ticket.id, ticket);
  };
  function on<T>(signal: SignalDefinition<[T]>, isSound: (payload: unknown) => payload is T, handle: (it: T) => void) {
    setHandler(signal, (payload) => {
      stirred = true;
      if (isSound(payload)) handle(payload);
      else log.warn('A malformed signal was left out.', { signal: signal.name, payload });
    });
  }
  setHandler(queueViewQuery, () => state.view());
  setHandler(
    overrideUpdate,
    (input) => {
      stirred = true;
      return state.setOverride(input, Date.now());
    },
    { validator: (input) => checkOverride(resource, input, state.overridden) },
  );
  on(enqueueSignal, (payload) => isTicket(resource, payload), take);
  on(
    missedSignal,
    (payload) => isMissedNotice(resource, payload),
    ({ ticket, slot }) => {
      metrics.turnUnused(resource, 'missed');
      if (!state.missed(ticket, slot)) unanswered.set(ticket.id, ticket);
    },
  );
  on(declinedSignal, isDeclinedNotice, ({ ticketId, runId }) => {
    const waiter = state.ticket(ticketId)?.waiter;
    if (runId !== undefined && waiter?.runId !== undefined && waiter.runId !== runId) return; // it has passed to the next waiter
    unanswered.delete(ticketId);
    if (state.declined(ticketId)) metrics.turnUnused(resource, 'declined');
  });
  on(closingSignal, isClosingNotice, ({ slot, runId }) => state.closing(slot, runId));
  for (const ticket of input?.tickets ?? []) if (isTicket(resource, ticket)) take(ticket);
  for (const ticketId of input?.unanswered ?? []) {
    const ticket = state.ticket(ticketId);
    if (ticket) unanswered.set(ticketId, ticket);
  }

  /** Sends without waiting for it. A queue that is to continue as new waits until nothing is on its way. */
  function send(deliver: () => Promise<unknown>): void {
    sending++;
    void deliver().then(() => {
      sending--;
      stirred = true;
    });
  }

  /** A few at a time, for all may ask at once. */
  function answer(): void {
    for (const [ticketId, { waiter }] of unanswered) {
      if (sending >= MAX_ANSWERING) return;
      unanswered.delete(ticketId);
      const waiting = state.ticket(ticketId) ? true : undefined;
      send(() => tell(waiter, turnSignal, { queueId, ticketId, waiting }));
    }
  }

  async function carryOut(command: QueueCommand): Promise<void> {
    const { slot } = command;
    const workflowId = permitId({ resource, slot });
    if (command.do === 'probe') {
      const delivery = await tell({ workflowId }, watchSignal, { queueId });
      if (command.overdue && delivery === 'not-found') metrics.turnUnused(resource, 'overdue');
      state.probed(slot, delivery !== 'not-found', Date.now());
    } else if (command.do === 'offer') {
      const { id, waiter } = command.ticket;
      const sentMs = Date.now();
      metrics.turnOffered(resource);
      const capacity = wantsSlot(command.ticket.slots, slot) ? undefined : state.overridden?.capacity;
      const delivery = await tell(waiter, turnSignal, { queueId, ticketId: id, slot, capacity });
      if (delivery === 'delivered') {
        metrics.handoff(resource, 'turn', Date.now() - sentMs);
      } else {
        metrics.turnUnused(resource, 'gone');
        state.undeliverable(slot, id);
      }
    } else if (command.do === 'drain') {
      await drain(slot);
    } else {
      const { runId } = command;
      const delivery = await tell({ workflowId, runId }, command.do === 'renew' ? renewSignal : releaseSignal);
      if (delivery === 'not-found') state.gone(slot, runId);
    }
  }

  async function drain(slot: string): Promise<void> {
    const permit = await claimDrain(resource, slot);
    state.claimed(slot, permit?.runId, Date.now());
    void permit?.ended.then(() => {
      state.gone(slot, permit.runId);
      stirred = true;
    });
  }

  for (;;) {
    stirred = false;
    if (!isToContinueAsNew()) {
      for (const command of state.next(Date.now())) send(() => carryOut(command));
      answer();
      metrics.waiters(resource, state.waitingCount);
    } else if (sending === 0) {
      metrics.waiters(resource, 0); // here: another worker may have the next run
      await continueAsNew<typeof waitQueueWorkflow>({
        tickets: [],
        view: state.view(),
        unanswered: [...unanswered.keys()].filter((ticketId) => state.ticket(ticketId)),
      });
    }
    if (state.idle && sending === 0) {
      // A ticket that comes as we leave is not lost: the server rejects the completion, and we wake with it here.
      if (!(await condition(() => stirred, LINGER_MS)) && state.idle) return;
    } else {
      alarm.setFor(state.dueMs());
      await condition(() => stirred || alarm.hasRung());
    }
  }
}

/** Before the server suggests it, since nothing keeps waiters from sending while the queue waits for what is on its way. */
function isToContinueAsNew(): boolean {
  const { continueAsNewSuggested, historyLength } = workflowInfo();
  return continueAsNewSuggested || historyLength >= CONTINUE_AT_EVENTS;
}

/** Refuses before anything is written to the history. */
function checkOverride(resource: string, input: OverrideInput, current: OverrideState | undefined): void {
  if (!isOverride(resource, input)) {
    throw ApplicationFailure.nonRetryable('expected slots, and a capacity or a pause of them', 'InvalidOptionsError');
  }
  if (input.ifVersion !== undefined && input.ifVersion !== (current?.version ?? 0)) {
    throw ApplicationFailure.nonRetryable('the override is of another version', STALE_OVERRIDE, current);
  }
}

/** One timer, left alone while it rings early enough: starting one for each wake would fill the history. */
class Alarm {
  private ringsAtMs = Number.POSITIVE_INFINITY;
  private rung = false;

  setFor(dueMs: number): void {
    this.rung = false;
    if (dueMs >= this.ringsAtMs) return;
    this.ringsAtMs = dueMs;
    void sleep(Math.max(1, dueMs - Date.now())).then(() => {
      if (this.ringsAtMs !== dueMs) return; // a later one was replaced by an earlier one
      this.ringsAtMs = Number.POSITIVE_INFINITY;
      this.rung = true;
    });
  }

  hasRung(): boolean {
    return this.rung;
  }
}
