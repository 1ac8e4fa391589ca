import { priorityOf } from '../../shared/priority';
import type { Ticket } from '../../shared/protocol';

/** A ticket for which there is no room. `superseded`: a later ticket has its place. */
export interface Refusal {
  ticket: Ticket;
  superseded: boolean;
}

/**
 * Tickets that came to a line longer than they allow (`maxWaiting`). The waiters before them may be about to have their turns, if
 * the queue does not know yet which slots are free; or they may be gone. Until the queue knows, such a ticket is in line, in doubt. Then
 * it is refused; or, with `whenFull`, another ticket with the same `whenFull` leaves the line for it.
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
   * Yields the tickets that are to be refused, one after the other, and forgets those that stay or have left.
   *
   * @param waiting the tickets without a turn, in the order of their arrival
   * @param mayBeFree whether a slot that the ticket would take is free, or may be
   * @param mayBeGone whether some waiters may be gone; asked only if a ticket is to be refused
   */
  *settle(
    waiting: Iterable<Ticket>,
    mayBeFree: (ticket: Ticket) => boolean,
    mayBeGone: () => boolean,
  ): Generator<Refusal> {
    if (this.ticketIds.size === 0) return;
    const tickets = new Map([...waiting].map((ticket) => [ticket.id, ticket]));
    const settled = new Set([...tickets.keys()].filter((id) => !this.ticketIds.has(id)));
    const answers = new Map<Ticket['slots'], boolean>(); // most tickets name the same slots
    for (const id of this.ticketIds) {
      const ticket = tickets.get(id);
      if (!ticket) {
        this.ticketIds.delete(id); // it has had its turn, or has left
        continue;
      }
      if (!answers.has(ticket.slots)) answers.set(ticket.slots, mayBeFree(ticket));
      if (answers.get(ticket.slots)) continue;
      const excess = settled.size + 1 - (ticket.maxWaiting ?? Number.POSITIVE_INFINITY);
      if (excess > 0 && mayBeGone()) continue;
      settled.add(id);
      const line = () => [...tickets.values()].filter((it) => settled.has(it.id));
      const leaving = excess > 0 ? refusalsFor(ticket, excess, line) : [];
      if (leaving.length === 0) this.ticketIds.delete(id);
      for (const [nth, refusal] of leaving.entries()) {
        settled.delete(refusal.ticket.id);
        if (nth === leaving.length - 1) this.ticketIds.delete(id); // not before: the queue may have no room to send more
        yield refusal;
      }
    }
  }
}

/**
 * Which tickets leave a line that is too long for a newcomer. With `whenFull`, those with the same `whenFull` and the lowest priority; and of
 * them the oldest, since newer callers do their work too.
 * @param lineOf the tickets in the order of their arrival, with the newcomer
 */
function refusalsFor(newcomer: Ticket, excess: number, lineOf: () => Ticket[]): Refusal[] {
  if (!newcomer.whenFull) return [{ ticket: newcomer, superseded: false }];
  const byAge = lineOf()
    .filter(({ whenFull }) => whenFull)
    .sort((a, b) => a.sinceMs - b.sinceMs);
  const inOrder = [...byAge].sort((a, b) => priorityOf(b) - priorityOf(a));
  const place = inOrder.indexOf(newcomer);
  if (place === 0) return [{ ticket: newcomer, superseded: byAge.at(-1) !== newcomer }];
  return inOrder.slice(0, Math.min(excess, place)).map((ticket) => ({ ticket, superseded: true }));
}
