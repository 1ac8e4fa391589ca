import { HandlerUnfinishedPolicy } from '@temporalio/common';
import { log } from '@temporalio/workflow';
import type { Turn } from '../../shared/protocol';
import { readTurn } from '../../shared/wire-input';
import { declinedSignal, deliver, hear, turnSignal } from '../signals';

/** The places of this Workflow in all queues, by ticket. (The sandbox loads modules anew for each Workflow: none shares them.) */
const listeners = new Map<string, (turn: Turn) => void>();

/** Of a flood of turns, the others are left out: the server takes 2,000 messages at once, and with more the task fails for ever. */
const MAX_HANDING_BACK = 100;
let handingBack = 0;

/** Passes each turn for this ticket on, as soon as it comes. */
export function hearTurns(ticketId: string, heard: (turn: Turn) => void): void {
  listeners.set(ticketId, heard);
  hear(turnSignal, receive, {
    // A Workflow may end without having declined. The queue then finds nobody there, or waits out the offer.
    unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
  });
}

/** From now on a turn for this ticket goes back to the queue. */
export function hearNoMoreTurns(ticketId: string): void {
  listeners.delete(ticketId);
}

/** Logs why a turn is not heeded, without its content: anybody may have sent it. */
export function leaveOut(because: string): void {
  log.warn(`A permit-turn was left out: it ${because}.`);
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
