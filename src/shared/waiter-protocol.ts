import type { Ticket } from './protocol';

/** The argument of a waiter, which lines up for a client. Its result is its turn, or `null` when none came in time. */
export interface AwaitTurnInput {
  resource: string;
  ticket: Omit<Ticket, 'waiter'>;
  /** When the waiter gives up. A client that still waits starts another one by then; a dead client does not. */
  waitMs: number;
  /** As the semaphore option of that name. */
  recheckAfterMs: number;
  /** The slot of this ticket's last turn, at which its owner was beaten: the place is kept. */
  missed?: string;
}
