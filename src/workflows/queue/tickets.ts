import { byteLength } from '../../shared/permit-id';
import type { Ticket } from '../../shared/protocol';
import { Demand } from './demand';

/** At most this many tickets … */
export const MAX_WAITERS = 2_000;

/**
 * … and this many bytes as JSON, with all that the queue has to remember of the slots which they name. One run can hand 2 MB to the next:
 * what an operator has set takes up to 0.6 MB of it, and the shares of fairness keys 0.4 MB.
 */
export const MAX_TICKET_BYTES = 1_000_000;

/** What the queue remembers of a slot, beside its name. */
const STATE_BYTES = 300;

/** … and this many different slot names. An honest pool has at most 1,000, and twice that while a rollout renames them all. */
const MAX_NAMES = 2_000;

/** The waiting tickets by ID. It knows whether a queue that takes one more, or a longer one, could still continue as new. */
export class Tickets extends Map<string, Ticket> {
  private bytes = 0;
  /** Of the lists of names, each of which many tickets share, and of what is remembered of their slots. */
  private listBytes = 0;
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
    const listBytes = this.listBytes + (this.sharing(ticket) === ticket ? bytesOfList(ticket) : 0);
    const capacity = Math.max(this.demand.capacity, typeof ticket.slots === 'number' ? ticket.slots : 0);
    const bytes = this.bytes - bytesOf(known) + bytesOf(ticket);
    return bytes + listBytes + capacity * STATE_BYTES <= MAX_TICKET_BYTES;
  }

  override set(ticketId: string, ticket: Ticket): this {
    const shared = this.sharing(ticket);
    this.forget(ticketId);
    this.bytes += bytesOf(ticket);
    if (this.demand.add(shared)) this.listBytes += bytesOfList(shared);
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
    if (this.demand.remove(ticket)) this.listBytes -= bytesOfList(ticket);
    if (ticket.preempt) this.preempting--;
    if (ticket.permits) this.accumulating--;
  }
}

/** Without the names of its slots, and with its ID twice more: an answer may be owed to it, and its place may be in doubt. */
function bytesOf(ticket: Ticket | undefined): number {
  return ticket ? byteLength(JSON.stringify({ ...ticket, slots: 0 })) + 2 * byteLength(JSON.stringify(ticket.id)) : 0;
}

/** Each name stands in its list, and beside the state of its slot. */
function bytesOfList({ slots }: Ticket): number {
  return typeof slots === 'number' ? 0 : 2 * byteLength(JSON.stringify(slots)) + slots.length * STATE_BYTES;
}
