import type { Ticket } from '../../shared/protocol';

/** What the queue does next. `drain`, `renew` and `release` are for slots that an operator has taken out of use. */
export type QueueCommand =
  /** Send `watch`, which asks whether the slot is held. `overdue`: after a turn that brought no word. `asks`: as `ask` does. */
  | { do: 'probe'; slot: string; overdue?: true; asks?: boolean }
  /** Send a turn. `also`: to these too, for others have let their turns for this slot pass. */
  | { do: 'offer'; slot: string; ticket: Ticket; also?: Ticket[] }
  /** Claim the slot, and keep it from the others. */
  | { do: 'drain'; slot: string }
  | { do: 'renew'; slot: string; runId: string }
  | { do: 'release'; slot: string; runId: string }
  /** Ask the holder of an offered slot whether it may have to give way. */
  | { do: 'ask'; slot: string }
  /** Ask that holder to give way to a waiter of this priority. */
  | { do: 'preempt'; slot: string; runId: string; priorityKey: number }
  /** Tell a waiter that wants more than are in use that it has no place. */
  | { do: 'refuse'; ticket: Ticket };

/** What the queue does to pass priorities on. */
export type InheritanceCommand =
  /** Ask the queue of this resource for the best priority in its line. */
  | { do: 'ask-priority'; of: string }
  /** Tell the queue of this resource the best priority in our line. */
  | { do: 'pass-on'; to: string; priorityKey: number };

/** The first `room` of these commands. Those that come after are not made. */
export function atMost<Command>(room: number, commands: Iterable<Command>): Command[] {
  const first: Command[] = [];
  if (room > 0) for (const command of commands) if (first.push(command) >= room) break;
  return first;
}
