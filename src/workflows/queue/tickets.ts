import { byteLength } from '../../shared/permit-id';
import type { Ticket } from '../../shared/protocol';
import { Demand } from './demand';

/** At most this many tickets … */
export const MAX_WAITERS = 2_000;

/** … and this many bytes of them as JSON, half of what one run can hand to the next: those that name many slots are long. */
export const MAX_TICKET_BYTES = 1_000_000;

/** … and this many different slot names. An honest pool has at most 1,000, and twice that while a rollout renames them all. */
const MAX_NAMES = 2_000;

/** The waiting tickets by ID. It knows whether a queue that takes one more, or a longer one, could still continue as new. */
export class Tickets extends Map<string, Ticket> {
  private bytes = 0;
  /** What any of them would take. */
  readonly demand = new Demand();
  /** How many of them ask for a holder to give way. */
  preempting = 0;
  /** How many of them want several permits. */
  accumulating = 0;

  hasRoomFor(ticket: Ticket): boolean {
    const known = this.get(ticket.id);
    if (!known && this.size >= MAX_WAITERS) return false;
    if (typeof ticket.slots !== 'number' && this.demand.namesWith(ticket.slots) > MAX_NAMES) return false;
    return this.bytes - bytesOf(known) + bytesOf(ticket) <= MAX_TICKET_BYTES;
  }

  override set(ticketId: string, ticket: Ticket): this {
    const shared = this.sharing(ticket);
    this.forget(ticketId);
    this.bytes += bytesOf(ticket);
    this.demand.add(shared);
    if (ticket.preempt) this.preempting++;
    if (ticket.permits) this.accumulating++;
    return super.set(ticketId, shared);
  }

  override delete(ticketId: string): boolean {
    this.forget(ticketId);
    return super.delete(ticketId);
  }

  /** The ticket, with the list of names that others have, if it is the same: those of one pool nearly always have one list. */
  private sharing(ticket: Ticket): Ticket {
    const slots = typeof ticket.slots === 'number' ? undefined : this.demand.listOf(ticket.slots);
    return slots ? { ...ticket, slots } : ticket;
  }

  private forget(ticketId: string): void {
    const ticket = this.get(ticketId);
    if (!ticket) return;
    this.bytes -= bytesOf(ticket);
    this.demand.remove(ticket);
    if (ticket.preempt) this.preempting--;
    if (ticket.permits) this.accumulating--;
  }
}

function bytesOf(ticket: Ticket | undefined): number {
  return ticket ? byteLength(JSON.stringify(ticket)) : 0;
}
