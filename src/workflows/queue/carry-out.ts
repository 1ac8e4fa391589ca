import { workflowInfo } from '@temporalio/workflow';
import { leastPaceMs } from '../../shared/pace';
import { permitId, queueId } from '../../shared/permit-id';
import { DRAINED, type Ticket, type Turn } from '../../shared/protocol';
import { slotsMark, wantsSlot } from '../../shared/slots';
import { metrics } from '../metrics';
import { claimSlot, type PermitChild } from '../permit/claim';
import {
  askPrioritySignal,
  type Delivery,
  deliver,
  deliverAfterReset,
  inheritSignal,
  preemptSignal,
  release,
  renewSignal,
  turnSignal,
  watchSignal,
} from '../signals';
import type { Inheritance } from './inheritance';
import type { InheritanceCommand, QueueCommand } from './queue-command';
import type { QueueState } from './queue-state';

/** How many of the slots that the last run has offered a new run asks about. If there are more, it does not ask about the others. */
const MAX_ASKED = 10;

/** Carries out what the queue's state decides, and reports the results to the state. @param wake called when later results have come */
export async function carryOut(
  command: QueueCommand,
  resource: string,
  state: QueueState,
  wake: () => void,
): Promise<void> {
  switch (command.do) {
    case 'refuse':
    case 'give-way': {
      const { id: ticketId, waiter } = command.ticket;
      const turn: Turn = { queueId: queueId(resource), ticketId };
      if (command.do === 'give-way') turn.giveWay = true;
      else if (command.superseded) turn.superseded = true;
      await deliverAfterReset(waiter, turnSignal, turn);
      return;
    }
    case 'ask-waiter': {
      const { ticket } = command;
      const turn = { queueId: queueId(resource), ticketId: ticket.id, waiting: true };
      const delivery = await deliverAfterReset(ticket.waiter, turnSignal, turn);
      state.present(ticket, delivery !== 'not-found', Date.now());
      return;
    }
    case 'probe': {
      const { slot, asks, overdue } = command;
      const delivery = await watch(slot, resource, asks);
      if (overdue && delivery === 'not-found') metrics.turnUnused(resource, 'overdue');
      state.probed(slot, delivery !== 'not-found', Date.now());
      return;
    }
    case 'ask':
      await watch(command.slot, resource, true);
      return;
    case 'offer': {
      const { ticket, also = [] } = command;
      await Promise.all([ticket, ...also].map((it) => offer(command, it, resource, state)));
      return;
    }
    case 'drain':
      await drain(command.slot, resource, state, wake);
      return;
    case 'renew':
    case 'release': {
      const { slot, runId } = command;
      const permit = { workflowId: permitId({ resource, slot }), runId };
      const delivery = await (command.do === 'renew' ? deliver(permit, renewSignal) : release(permit));
      if (delivery === 'not-found') state.gone(slot, runId);
      return;
    }
    case 'preempt': {
      const { slot, runId, priorityKey } = command;
      const permit = { workflowId: permitId({ resource, slot }), runId };
      const delivery = await deliver(permit, preemptSignal, { priorityKey });
      if (delivery === 'not-found') state.notThere(slot, runId);
    }
  }
}

/** Asks a permit to tell the queue when it closes. @param preempt whether the permit is to say that its holder may have to give way */
function watch(slot: string, resource: string, preempt?: boolean): Promise<Delivery> {
  return deliver({ workflowId: permitId({ resource, slot }) }, watchSignal, { queueId: queueId(resource), preempt });
}

/** Tells another queue a priority, or asks it for one. A queue that does not run has no waiters. */
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
 * Asks the slots that the last run of the queue has offered. While the last run ended, the server may have refused a permit's
 * `closing`, and then tries again only after seconds. A permit that is asked while it ends sends another `closing`. Whether the `watch`
 * is delivered says nothing: the waiter may be about to claim its slot.
 */
export async function askOffered(resource: string, state: QueueState): Promise<void> {
  const offered = state.view().slots.flatMap(([slot, { at }]) => (at === 'offered' ? [slot] : []));
  await Promise.all(offered.slice(0, MAX_ASKED).map((slot) => watch(slot, resource)));
}

async function offer(
  { slot }: QueueCommand & { do: 'offer' },
  ticket: Ticket,
  resource: string,
  state: QueueState,
): Promise<void> {
  const sentMs = Date.now();
  metrics.turnOffered(resource);
  // A waiter takes a slot above its own capacity only if the turn says why.
  const capacity = wantsSlot(ticket.slots, slot) ? undefined : state.overridden?.capacity;
  const others = state.othersOf(slot);
  const turn: Turn = {
    queueId: queueId(resource),
    ticketId: ticket.id,
    slot,
    capacity,
    others: others && slotsMark(others),
  };
  if ((await deliverAfterReset(ticket.waiter, turnSignal, turn)) === 'delivered') {
    metrics.handoff(resource, 'turn', Date.now() - sentMs);
  } else {
    metrics.turnUnused(resource, 'gone');
    state.undeliverable(slot, ticket.id);
  }
}

async function drain(slot: string, resource: string, state: QueueState, wake: () => void): Promise<void> {
  const child = await claimDrain(resource, slot);
  const runId = child?.firstExecutionRunId;
  state.claimed(slot, runId, Date.now());
  if (!child || !runId) return;
  const ended = () => {
    state.gone(slot, runId);
    wake();
  };
  void child.result().then(ended, ended);
}

/**
 * If the queue is terminated, its drained slots come free when a caller waits for them, at the next operator command, or after
 * this time. A permit whose queue still runs stays, even if no worker was up to renew it.
 */
const DRAIN_LEASE_MS = 60 * 60_000;

/**
 * The queue takes a slot out of use by claiming it like any acquirer, so that safety still rests on the claim, and acquirers need to know
 * nothing. The permit outlives the run, because the queue continues as new. If the queue is gone, the lease ends the permit.
 *
 * @returns `undefined` if an acquirer was faster
 */
async function claimDrain(resource: string, slot: string): Promise<PermitChild | undefined> {
  const { workflowId: watchedBy, namespace } = workflowInfo();
  const paceMs = leastPaceMs(namespace);
  return await claimSlot(
    { resource, slot },
    { leaseMs: DRAIN_LEASE_MS, purpose: DRAINED, ...(paceMs !== undefined && { paceMs }) },
    { watchedBy, outlivesRun: true },
  );
}
