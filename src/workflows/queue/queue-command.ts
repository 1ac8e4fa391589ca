import type { Ticket } from '../../shared/protocol';

/** What the queue does next. The last three are for slots that an operator has taken out of use. */
export type QueueCommand =
  /** Send `watch`, which asks whether the slot is held. `overdue`: after a turn that brought no word. */
  | { do: 'probe'; slot: string; overdue?: true }
  /** Send a turn. */
  | { do: 'offer'; slot: string; ticket: Ticket }
  /** Claim the slot, and keep it from the others. */
  | { do: 'drain'; slot: string }
  | { do: 'renew'; slot: string; runId: string }
  | { do: 'release'; slot: string; runId: string };
