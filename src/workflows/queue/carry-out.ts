import { permitId, queueId } from '../../shared/permit-id';
import type { Ticket } from '../../shared/protocol';
import { wantsSlot } from '../../shared/slots';
import { metrics } from '../metrics';
import {
  askPrioritySignal,
  deliver,
  deliverAfterReset,
  inheritSignal,
  preemptSignal,
  release,
  renewSignal,
  turnSignal,
  watchSignal,
} from '../signals';
import { claimDrain } from './drain';
import type { Inheritance } from './inheritance';
import type { PreemptingQueueState } from './preempting-queue-state';
import type { InheritanceCommand, QueueCommand } from './queue-command';

/** A new run asks so many of the slots that the last one has offered. In a pool of more, others go on meanwhile. */
const MAX_ASKED = 10;

/** Does what the queue's state asks for, and tells the state what came of it. */
export async function carryOut(
  command: QueueCommand,
  resource: string,
  state: PreemptingQueueState,
  stir: () => void,
): Promise<void> {
  if (command.do === 'refuse') {
    const { id: ticketId, waiter } = command.ticket;
    await deliverAfterReset(waiter, turnSignal, { queueId: queueId(resource), ticketId });
    return;
  }
  const { slot } = command;
  const workflowId = permitId({ resource, slot });
  if (command.do === 'probe') {
    const watch = { queueId: queueId(resource), preempt: command.asks };
    const delivery = await deliver({ workflowId }, watchSignal, watch);
    if (command.overdue && delivery === 'not-found') metrics.turnUnused(resource, 'overdue');
    state.probed(slot, delivery !== 'not-found', Date.now());
  } else if (command.do === 'offer') {
    const { ticket, also = [] } = command;
    await Promise.all([ticket, ...also].map((it) => offer(slot, it, resource, state)));
  } else if (command.do === 'drain') {
    await drain(slot, resource, state, stir);
  } else if (command.do === 'ask') {
    await deliver({ workflowId }, watchSignal, { queueId: queueId(resource), preempt: true });
  } else if (command.do === 'preempt') {
    const { runId, priorityKey } = command;
    const delivery = await deliver({ workflowId, runId }, preemptSignal, { priorityKey });
    if (delivery === 'not-found') state.notThere(slot, runId);
  } else {
    const { runId } = command;
    const permit = { workflowId, runId };
    const delivery = await (command.do === 'renew' ? deliver(permit, renewSignal) : release(permit));
    if (delivery === 'not-found') state.gone(slot, runId);
  }
}

/** Tells another queue, or asks it. One that is not there has nobody in line. */
export async function passOn(command: InheritanceCommand, resource: string, inheritance: Inheritance): Promise<void> {
  if (command.do === 'ask-priority') {
    await deliver({ workflowId: queueId(command.of) }, askPrioritySignal, { resource });
    return;
  }
  const { to, priorityKey } = command;
  const delivery = await deliver({ workflowId: queueId(to) }, inheritSignal, { resource, priorityKey });
  if (delivery === 'not-found') inheritance.gone(to);
}

/**
 * Asks the slots that the last run of the queue has offered. While that run ended, the server may have refused a permit's
 * `closing`, which it then tries again only after seconds. A permit that is asked while it ends sends another one. The answer says
 * nothing: the waiter may be about to claim its slot.
 */
export async function askOffered(resource: string, state: PreemptingQueueState): Promise<void> {
  const offered = state.view().slots.flatMap(([slot, { at }]) => (at === 'offered' ? [slot] : []));
  const ask = (slot: string) =>
    deliver({ workflowId: permitId({ resource, slot }) }, watchSignal, { queueId: queueId(resource) });
  await Promise.all(offered.slice(0, MAX_ASKED).map(ask));
}

async function offer(slot: string, ticket: Ticket, resource: string, state: PreemptingQueueState): Promise<void> {
  const sentMs = Date.now();
  metrics.turnOffered(resource);
  // A waiter takes a slot above its own count only when it is told why.
  const capacity = wantsSlot(ticket.slots, slot) ? undefined : state.overridden?.capacity;
  const turn = { queueId: queueId(resource), ticketId: ticket.id, slot, capacity };
  if ((await deliverAfterReset(ticket.waiter, turnSignal, turn)) === 'delivered') {
    metrics.handoff(resource, 'turn', Date.now() - sentMs);
  } else {
    metrics.turnUnused(resource, 'gone');
    state.undeliverable(slot, ticket.id);
  }
}

async function drain(slot: string, resource: string, state: PreemptingQueueState, stir: () => void): Promise<void> {
  const child = await claimDrain(resource, slot);
  const runId = child?.firstExecutionRunId;
  state.claimed(slot, runId, Date.now());
  if (!child || !runId) return;
  const ended = () => {
    state.gone(slot, runId);
    stir();
  };
  void child.result().then(ended, ended);
}
