import type { Ticket } from '../../shared/protocol';

/** What the queue does next. `drain`, `renew` and `release` are for slots that an operator has taken out of use. */
export type QueueCommand =
  /** Send `watch`, which asks whether the slot is held. `overdue`: after a turn that got no reply. `asks`: also asks what `ask` asks. */
  | { do: 'probe'; slot: string; overdue?: true; asks?: boolean }
  /** Send a turn. `also`: to these waiters too, since others have let their turns for this slot pass. */
  | { do: 'offer'; slot: string; ticket: Ticket; also?: Ticket[] }
  /** Claim the slot, and keep it from the others. */
  | { do: 'drain'; slot: string }
  | { do: 'renew'; slot: string; runId: string }
  | { do: 'release'; slot: string; runId: string }
  /** Ask the holder of an offered slot whether it may have to give way. */
  | { do: 'ask'; slot: string }
  /** Ask that holder to give way to a waiter of this priority. */
  | { do: 'preempt'; slot: string; runId: string; priorityKey: number }
  /** Ask a waiter that has sent no message for a while whether it is there. */
  | { do: 'ask-waiter'; ticket: Ticket }
  /** Tell a waiter that the queue has no room for it. `superseded`: its place goes to a later waiter. */
  | { do: 'refuse'; ticket: Ticket; superseded?: true }
  /** Tell a waiter, whose ticket has left the queue, to give back the permit that admits it. */
  | { do: 'give-way'; ticket: Ticket };

/** What the queue does to pass priorities on. */
export type InheritanceCommand =
  /** Ask the queue of this resource for the highest priority of its waiters. */
  | { do: 'ask-priority'; of: string }
  /** Tell the queue of this resource the highest priority of our waiters. */
  | { do: 'pass-on'; to: string; priorityKey: number };

/** The first `room` of these commands. The others are not made. */
export function atMost<Command>(room: number, commands: Iterable<Command>): Command[] {
  const first: Command[] = [];
  if (room > 0) for (const command of commands) if (first.push(command) >= room) break;
  return first;
}

const LEAST_MS = 10_000;
export const MOST_MS = 240_000;
/** All slots of a resource together are asked at most 50 times a second. */
const LEAST_MS_PER_SLOT = 20;

/**
 * When the queue asks about a held slot again: after half of the time that the slot has been held, within bounds. A permit that an
 * operator terminates, or that the server ends at `maxHold`, can't report that it closed. Its holder does. The queue's probes find
 * the permits that ended together with their holders. Each probe costs a timer, a signal to the permit, which takes only 10,000 signals in
 * its life, and fourteen events.
 */
export function probeAfterMs(heldMs: number, slots: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, LEAST_MS_PER_SLOT * slots, heldMs / 2));
}
