import { byteLength } from '../shared/permit-id';
import type { Ticket } from '../shared/protocol';

/** At most this many tickets … */
export const MAX_WAITERS = 2_000;

/** … and this many bytes of them as JSON, half of what one run can hand to the next: those that name many slots are long. */
export const MAX_TICKET_BYTES = 1_000_000;

/** Who waits, by ticket ID. It knows whether a queue that has one more could still continue as new. */
export class Tickets extends Map<string, Ticket> {
  private bytes = 0;

  hasRoomFor(ticket: Ticket): boolean {
    return this.has(ticket.id) || (this.size < MAX_WAITERS && this.bytes + bytesOf(ticket) <= MAX_TICKET_BYTES);
  }

  override set(ticketId: string, ticket: Ticket): this {
    this.bytes += bytesOf(ticket) - bytesOf(this.get(ticketId));
    return super.set(ticketId, ticket);
  }

  override delete(ticketId: string): boolean {
    this.bytes -= bytesOf(this.get(ticketId));
    return super.delete(ticketId);
  }
}

function bytesOf(ticket: Ticket | undefined): number {
  return ticket ? byteLength(JSON.stringify(ticket)) : 0;
}
