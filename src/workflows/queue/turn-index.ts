import { priorityOf } from '../../shared/priority';
import type { Ticket } from '../../shared/protocol';
import type { TurnOrder } from '../../shared/turn-order';
import { count, TicketSlots } from './ticket-slots';

/** A ticket in the index. */
interface Entry {
  readonly ticket: Ticket;
  /** Of equals, the ticket that came first is first. */
  readonly arrival: number;
  readonly isSilent: boolean;
  readonly lane: string;
}

/**
 * The tickets without a turn, kept so that the first ticket for a slot is found without going through all of them. Tickets that want the
 * same slots form a group. In a group, tickets that differ only by their permit pool's count, age and arrival form a lane, which is
 * sorted. So the first of all is the first of some lane, and there are as many lanes as there are priorities and fairness keys in use.
 */
export class TurnIndex {
  /** What the tickets name or count. */
  readonly slots = new TicketSlots();
  private readonly groups = new Map<Ticket['slots'], Map<string, Entry[]>>();
  private readonly entries = new Map<string, Entry>();
  private readonly priorities = new Map<number, number>();

  /** @param isSilent whether the ticket's waiter has let a turn pass: it comes last */
  constructor(
    private readonly order: TurnOrder,
    private readonly isSilent: (ticket: Ticket) => boolean,
  ) {}

  get size(): number {
    return this.entries.size;
  }

  /** Infinity when there is no ticket. */
  get bestPriority(): number {
    return Math.min(...this.priorities.keys());
  }

  /** Two tickets of the same named slots share one list of names. */
  add(ticket: Ticket, arrival: number): void {
    const isSilent = this.isSilent(ticket);
    const priority = priorityOf(ticket);
    const lane = JSON.stringify([isSilent, !ticket.kept, priority, ticket.fairnessKey]);
    const entry = { ticket, arrival, isSilent, lane };
    this.entries.set(ticket.id, entry);
    const lanes = this.groups.get(ticket.slots) ?? new Map<string, Entry[]>();
    this.groups.set(ticket.slots, lanes);
    const entries = lanes.get(lane) ?? [];
    lanes.set(lane, entries);
    entries.splice(this.indexIn(entries, entry), 0, entry);
    count(this.priorities, priority, 1);
    this.slots.add(ticket);
  }

  /** Does nothing if the ticket is not in the index. */
  remove(ticketId: string): void {
    const entry = this.entries.get(ticketId);
    if (!entry) return;
    const { ticket, lane } = entry;
    this.entries.delete(ticketId);
    const lanes = this.groups.get(ticket.slots);
    const entries = lanes?.get(lane);
    entries?.splice(this.indexIn(entries, entry), 1);
    if (entries?.length === 0) lanes?.delete(lane);
    if (lanes?.size === 0) this.groups.delete(ticket.slots);
    count(this.priorities, priorityOf(ticket), -1);
    this.slots.remove(ticket);
  }

  /** @param isEligible whether tickets of these slots can have the slot */
  first(isEligible: (slots: Ticket['slots']) => boolean): Ticket | undefined {
    let first: Entry | undefined;
    for (const [slots, lanes] of this.groups) {
      if (!isEligible(slots)) continue;
      for (const [entry] of lanes.values()) if (entry && (!first || this.compare(entry, first) < 0)) first = entry;
    }
    return first?.ticket;
  }

  private compare(a: Entry, b: Entry): number {
    return Number(a.isSilent) - Number(b.isSilent) || this.order.compare(a.ticket, b.ticket) || a.arrival - b.arrival;
  }

  /** The index of the entry in its lane, or the index at which it would be inserted. */
  private indexIn(entries: readonly Entry[], entry: Entry): number {
    let [from, to] = [0, entries.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.compare(entries[middle] as Entry, entry) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
