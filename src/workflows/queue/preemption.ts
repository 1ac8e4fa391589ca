import type { PreemptionTerms } from '../../shared/preemption-protocol';
import type { Ticket } from '../../shared/protocol';
import { priorityOf } from '../../shared/turn-order';

/** A holder that may be asked to give way. */
export interface Holder extends PreemptionTerms {
  slot: string;
  runId: string;
  /** It gives way already. */
  givesWay: boolean;
}

/** Whom the queue asks to give way, and for whom. */
export interface Request {
  holder: Holder;
  priorityKey: number;
}

/**
 * Picks the holders that are to give way. Each waiter that asks gets one holder: one that gives way already, or else one that is to be asked, the most
 * urgent waiter first. A holder gives way to a strictly higher priority only. Pure.
 *
 * @param waiters those that ask and have no turn
 * @param holders all that have said that they may give way
 * @param wants whether a waiter would take the slot
 * @param isSettled whether all the slots that the waiter would take have been asked; until then it waits, for a lower priority may
 * answer later
 */
export function requests(
  waiters: readonly Ticket[],
  holders: readonly Holder[],
  wants: (waiter: Ticket, slot: string) => boolean,
  isSettled: (waiter: Ticket) => boolean,
): Request[] {
  const left = new Set(holders);
  const asked: Request[] = [];
  for (const waiter of [...waiters].sort(byUrgency)) {
    const wanted = [...left].filter(({ slot }) => wants(waiter, slot));
    const holder = wanted.find(({ givesWay }) => givesWay) ?? (isSettled(waiter) ? lowest(wanted, waiter) : undefined);
    if (!holder) continue;
    left.delete(holder);
    if (!holder.givesWay) asked.push({ holder, priorityKey: priorityOf(waiter) });
    if (left.size === 0) break;
  }
  return asked;
}

/** The holder of the lowest priority; of equals, the one that began last, since it loses least. */
function lowest(holders: readonly Holder[], waiter: Ticket): Holder | undefined {
  let found: Holder | undefined;
  for (const holder of holders) {
    if (holder.priorityKey <= priorityOf(waiter)) continue;
    const difference = found ? holder.priorityKey - found.priorityKey : 1;
    if (difference > 0 || (difference === 0 && holder.runId > (found?.runId ?? ''))) found = holder;
  }
  return found;
}

function byUrgency(a: Ticket, b: Ticket): number {
  return priorityOf(a) - priorityOf(b) || a.sinceMs - b.sinceMs;
}
