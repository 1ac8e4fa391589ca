import type { Ticket } from '../../shared/protocol';

/** What the queue does next. `drain`, `renew` and `release` are for slots that an operator has taken out of use. */
export type QueueCommand =
  /** Send `watch`, which asks whether the slot is held. `overdue`: after a turn that brought no word. `asks`: what `ask` asks. */
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
  /** Ask a waiter that has sent no word for a while whether it is there. */
  | { do: 'ask-waiter'; ticket: Ticket }
  /** Tell a waiter that the line has no room for it. `superseded`: its place goes to a later one. */
  | { do: 'refuse'; ticket: Ticket; superseded?: true }
  /** Tell a waiter to give back what admits it to the line. It is out of the line. */
  | { do: 'give-way'; ticket: Ticket };

/** What the queue does to pass priorities on. */
export type InheritanceCommand =
  /** Ask the queue of this resource for the best priority in its line. */
  | { do: 'ask-priority'; of: string }
  /** Tell the queue of this resource the best priority in our line. */
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
 * operator terminates, or that the server ends by `maxHold`, cannot say that it closed. Its holder says it. The queue's questions find
 * the permits that ended together with their holders. Each question is a timer, a signal to the permit, which takes only 10,000 signals in
 * its life, and fourteen events.
 */
export function probeAfterMs(heldMs: number, slots: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, LEAST_MS_PER_SLOT * slots, heldMs / 2));
}
