import { condition, continueAsNew, defineQuery, log, setHandler, sleep, workflowInfo } from '@temporalio/workflow';
import { permitId, resourceOfQueue } from '../shared/permit-id';
import { QUEUE_VIEW, type QueueInput, type QueueView, type Ticket } from '../shared/protocol';
import { type QueueCommand, QueueState } from './queue-state';
import { closingSignal, declinedSignal, enqueueSignal, missedSignal, tell, turnSignal, watchSignal } from './signals';

export const queueViewQuery = defineQuery<QueueView>(QUEUE_VIEW);

/** How long an empty queue stays for the next waiter, who would otherwise start one and probe every slot anew. */
const LINGER_MS = 2_000;

/**
 * The wait queue of one resource, `permit-queue:<resource>`. It exists only while somebody waits. It decides nothing about
 * who holds a permit: it moves signals between the permits that it watches and the waiters whose turn it is, as
 * {@link QueueState} says. If it is terminated, every waiter finds out and looks for itself.
 */
export async function waitQueueWorkflow({ tickets, view }: QueueInput): Promise<void> {
  const queueId = workflowInfo().workflowId;
  const resource = resourceOfQueue(queueId);
  const state = new QueueState(view);
  const alarm = new Alarm();
  let stirred = true;
  let sending = 0;

  /** Lets go of an acquirer that found the queue full: it is told to try on its own. */
  const refuse = ({ id, waiter }: Ticket) => send(() => tell(waiter, turnSignal, { queueId, ticketId: id }));
  const take = (ticket: Ticket) => {
    if (!isTicket(ticket)) log.warn('A malformed ticket was left out.', { ticket });
    else if (!state.enqueue(ticket)) refuse(ticket);
  };
  const stirring =
    <T>(handle: (payload: T) => void) =>
    (payload: T) => {
      stirred = true;
      handle(payload);
    };
  setHandler(queueViewQuery, () => state.view());
  setHandler(enqueueSignal, stirring(take));
  setHandler(
    missedSignal,
    stirring(({ ticket, slot }) => {
      if (!isTicket(ticket)) log.warn('A malformed ticket was left out.', { ticket });
      else if (!state.missed(ticket, slot)) refuse(ticket);
    }),
  );
  setHandler(
    declinedSignal,
    stirring(({ ticketId }) => state.declined(ticketId)),
  );
  setHandler(
    closingSignal,
    stirring(({ slot, runId }) => state.closing(slot, runId)),
  );
  for (const ticket of tickets) take(ticket);

  /** Sends without waiting for it. A queue that is to continue as new waits until nothing is on its way. */
  function send(deliver: () => Promise<unknown>): void {
    sending++;
    void deliver().then(() => {
      sending--;
      stirred = true;
    });
  }

  async function carryOut(command: QueueCommand): Promise<void> {
    const { slot } = command;
    if (command.do === 'probe') {
      const delivery = await tell({ workflowId: permitId({ resource, slot }) }, watchSignal, { queueId });
      state.probed(slot, delivery !== 'not-found', Date.now());
    } else {
      const { id, waiter } = command.ticket;
      const delivery = await tell(waiter, turnSignal, { queueId, ticketId: id, slot });
      if (delivery !== 'delivered') state.undeliverable(slot, id);
    }
  }

  for (;;) {
    stirred = false;
    if (!workflowInfo().continueAsNewSuggested) {
      for (const command of state.next(Date.now())) send(() => carryOut(command));
    } else if (sending === 0) {
      await continueAsNew<typeof waitQueueWorkflow>({ tickets: [], view: state.view() });
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

/** Other languages enqueue too, and a ticket that breaks the queue would break it for everyone. */
function isTicket(ticket: Ticket): boolean {
  return (
    typeof ticket?.id === 'string' &&
    typeof ticket.waiter?.workflowId === 'string' &&
    (typeof ticket.slots === 'number' || Array.isArray(ticket.slots)) &&
    typeof ticket.sinceMs === 'number'
  );
}
