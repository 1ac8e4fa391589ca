import type { Ticket } from '../../shared/protocol';

/**
 * Tickets that came to a line longer than they allow (`maxWaiting`). The waiters before them may be about to have their turns, where
 * the queue does not know yet which slots are free; or they may be gone. Until the queue knows, such a ticket stands in line, in doubt.
 */
export class Doubts {
  /** By ID, in the order of their arrival. */
  private readonly ticketIds = new Set<string>();

  add(ticketId: string): void {
    this.ticketIds.add(ticketId);
  }

  /** The tickets in doubt, which the next run of the queue is told. */
  get all(): string[] {
    return [...this.ticketIds];
  }

  /**
   * Gives the tickets that are to be refused, one after the other, and lets go of those that stay or have left.
   *
   * @param waiting the tickets without a turn
   * @param mayBeFree whether a slot that the ticket would take is free, or nobody knows
   * @param mayBeGone whether some who wait may be gone; asked only where a ticket is to be refused
   */
  *settle(
    waiting: Iterable<Ticket>,
    mayBeFree: (ticket: Ticket) => boolean,
    mayBeGone: () => boolean,
  ): Generator<Ticket> {
    if (this.ticketIds.size === 0) return;
    const tickets = new Map([...waiting].map((ticket) => [ticket.id, ticket]));
    let others = [...tickets.keys()].filter((id) => !this.ticketIds.has(id)).length;
    const answers = new Map<Ticket['slots'], boolean>(); // most tickets name the same slots
    for (const id of this.ticketIds) {
      const ticket = tickets.get(id);
      if (ticket) {
        if (!answers.has(ticket.slots)) answers.set(ticket.slots, mayBeFree(ticket));
        if (answers.get(ticket.slots)) continue;
      }
      const isRefused = ticket && others >= (ticket.maxWaiting ?? Number.POSITIVE_INFINITY);
      if (isRefused && mayBeGone()) continue;
      this.ticketIds.delete(id);
      if (!ticket) continue; // it has had its turn, or has left
      if (isRefused) yield ticket;
      else others++;
    }
  }
}
