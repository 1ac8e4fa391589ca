import {
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  defineUpdate,
  log,
  type SignalDefinition,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { OVERRIDE, type OverrideInput, type OverrideState, STALE_OVERRIDE } from '../../shared/operator-protocol';
import { permitId, resourceOfQueue } from '../../shared/permit-id';
import type { Ticket } from '../../shared/protocol';
import { QUEUE_VIEW, type QueueInput, type QueueView } from '../../shared/queue-view';
import { wantsSlot } from '../../shared/slots';
import { isOverride, readClosing, readDeclined, readMissed, readTicket } from '../../shared/wire-input';
import '../lenient-converter';
import { metrics } from '../metrics';
import {
  closingSignal,
  declinedSignal,
  deliver,
  enqueueSignal,
  missedSignal,
  releaseSignal,
  renewSignal,
  turnSignal,
  watchSignal,
} from '../signals';
import { Alarm } from './alarm';
import { claimDrain } from './drain';
import { OperatedQueueState } from './operated-queue-state';
import { HELD_UNSEEN_MS, type QueueCommand } from './queue-state';
import { RunLength } from './run-length';

export const queueViewQuery = defineQuery<QueueView>(QUEUE_VIEW);
const overrideUpdate = defineUpdate<OverrideState, [OverrideInput]>(OVERRIDE);

/** How long an empty queue stays for the next waiter, who would otherwise start one and probe every slot anew. */
const LINGER_MS = 2_000;

/**
 * Signals on their way at once. The server takes 2,000, and with more the task fails for ever; but each is a command to
 * make and an answer to read, and a thousand of them in one task take seconds.
 */
const MAX_SENDING = 64;

/**
 * The wait queue of one resource, `permit-queue:<resource>`. It exists only while somebody waits, an operator has set
 * something, or (for a while) a permit that it watches is held. It decides nothing about who holds a permit: it moves
 * signals between the permits that it watches and the waiters whose turn it is, as {@link OperatedQueueState} says. If it is
 * terminated, every waiter finds out and looks for itself. A cancel request changes nothing: others wait here.
 */
export async function waitQueueWorkflow(input?: QueueInput): Promise<void> {
  await CancellationScope.nonCancellable(() => keepQueue(input));
}

async function keepQueue(input?: QueueInput): Promise<void> {
  const { workflowId: queueId, continuedFromExecutionRunId } = workflowInfo();
  const resource = resourceOfQueue(queueId);
  // Only a run of our own hands a state on. What somebody else starts a queue with may be anything.
  const handedOn = continuedFromExecutionRunId ? input : undefined;
  const state = new OperatedQueueState(handedOn?.view);
  const alarm = new Alarm();
  const runLength = new RunLength();
  /** What has happened since we last looked. */
  let stirs = 1;
  let sending = 0;

  /** Those to be told that they wait, as they asked for a sign of life, or that there is no room for them. */
  const unanswered = new Map<string, Ticket>();

  const take = (ticket: Ticket) => {
    if (!state.enqueue(ticket) || ticket.answer) unanswered.set(ticket.id, ticket);
  };
  function on<T>(signal: SignalDefinition<[T]>, read: (payload: unknown) => T | undefined, handle: (it: T) => void) {
    setHandler(signal, (payload) => {
      stirs++;
      const message = read(payload);
      if (message) handle(message);
      // Not what it was: a log entry that is nested deep enough ends the worker without a word.
      else log.warn('A malformed signal was left out.', { signal: signal.name, type: typeof payload });
    });
  }
  setHandler(queueViewQuery, () => state.view());
  setHandler(
    overrideUpdate,
    (input) => {
      stirs++;
      return state.setOverride(input, Date.now());
    },
    { validator: (input) => checkOverride(resource, input, state.overridden) },
  );
  on(enqueueSignal, (payload) => readTicket(resource, payload), take);
  on(
    missedSignal,
    (payload) => readMissed(resource, payload),
    ({ ticket, slot }) => {
      metrics.turnUnused(resource, 'missed');
      if (!state.missed(ticket, slot)) unanswered.set(ticket.id, ticket);
    },
  );
  on(declinedSignal, readDeclined, ({ ticketId, runId }) => {
    const waiter = state.ticket(ticketId)?.waiter;
    if (runId !== undefined && waiter?.runId !== undefined && waiter.runId !== runId) return; // it has passed to the next waiter
    unanswered.delete(ticketId);
    if (state.declined(ticketId)) metrics.turnUnused(resource, 'declined');
  });
  on(closingSignal, readClosing, ({ slot, runId }) => state.closing(slot, runId));
  for (const sent of Array.isArray(input?.tickets) ? input.tickets : []) {
    const ticket = readTicket(resource, sent);
    if (ticket) take(ticket);
  }
  for (const ticketId of handedOn?.unanswered ?? []) {
    const ticket = state.ticket(ticketId);
    if (ticket) unanswered.set(ticketId, ticket);
  }

  /** Sends without waiting for it. A queue that is to continue as new waits until nothing is on its way. */
  function send(message: () => Promise<unknown>): void {
    sending++;
    void message().then(() => {
      sending--;
      stirs++;
    });
  }

  /** A few at a time, for all may ask at once. */
  function answer(): void {
    for (const [ticketId, { waiter }] of unanswered) {
      if (sending >= MAX_SENDING) return;
      unanswered.delete(ticketId);
      const waiting = state.ticket(ticketId) ? true : undefined;
      send(() => deliver(waiter, turnSignal, { queueId, ticketId, waiting }));
    }
  }

  async function carryOut(command: QueueCommand): Promise<void> {
    const { slot } = command;
    const workflowId = permitId({ resource, slot });
    if (command.do === 'probe') {
      const delivery = await deliver({ workflowId }, watchSignal, { queueId });
      if (command.overdue && delivery === 'not-found') metrics.turnUnused(resource, 'overdue');
      state.probed(slot, delivery !== 'not-found', Date.now());
    } else if (command.do === 'offer') {
      const { id, waiter } = command.ticket;
      const sentMs = Date.now();
      metrics.turnOffered(resource);
      const capacity = wantsSlot(command.ticket.slots, slot) ? undefined : state.overridden?.capacity;
      const delivery = await deliver(waiter, turnSignal, { queueId, ticketId: id, slot, capacity });
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
      const delivery = await deliver({ workflowId, runId }, command.do === 'renew' ? renewSignal : releaseSignal);
      if (delivery === 'not-found') state.gone(slot, runId);
    }
  }

  async function drain(slot: string): Promise<void> {
    const child = await claimDrain(resource, slot);
    const runId = child?.firstExecutionRunId;
    state.claimed(slot, runId, Date.now());
    if (!child || !runId) return;
    const ended = () => {
      state.gone(slot, runId);
      stirs++;
    };
    void child.result().then(ended, ended);
  }

  for (;;) {
    const { isOverlong, mayContinueAsNew } = runLength.look(stirs + (alarm.hasRung() ? 1 : 0));
    stirs = 0;
    if (!isOverlong) {
      for (const command of state.next(Date.now(), MAX_SENDING - sending)) send(() => carryOut(command));
      answer();
      metrics.waiters(resource, state.waitingCount);
    }
    if (mayContinueAsNew && sending === 0) {
      metrics.waiters(resource, 0); // here: another worker may have the next run
      await continueAsNew<typeof waitQueueWorkflow>({
        tickets: [],
        view: state.view(),
        unanswered: [...unanswered.keys()].filter((ticketId) => state.ticket(ticketId)),
      });
    }
    if (state.idle && sending === 0) {
      // A ticket that comes as we leave is not lost: the server rejects the completion, and we wake with it here.
      const lingerMs = state.awaitsClosing ? HELD_UNSEEN_MS : LINGER_MS;
      if (!(await condition(() => stirs > 0, lingerMs)) && state.idle) return;
    } else {
      alarm.setFor(state.dueMs());
      await condition(() => stirs > 0 || alarm.hasRung());
    }
  }
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
