import { priorityOf } from '../../shared/priority';
import type { Ticket } from '../../shared/protocol';
import type { TurnOrder } from '../../shared/turn-order';
import { count, TicketSlots } from './ticket-slots';

/** Where a ticket stands. */
interface Standing {
  readonly ticket: Ticket;
  /** Of equals, the one that came first is first. */
  readonly arrival: number;
  readonly isSilent: boolean;
  readonly lane: string;
}

/**
 * The tickets without a turn, kept so that the first one for a slot is found without a walk through all of them. Tickets that want the
 * same slots are a group. In a group, those that only a permit pool's count, their age and their arrival tell apart are a lane, which is
 * sorted. So the first of all is the first of some lane, and there are as many lanes as there are priorities and fairness keys in use.
 */
export class TurnIndex {
  /** What the tickets name or count. */
  readonly slots = new TicketSlots();
  private readonly groups = new Map<Ticket['slots'], Map<string, Standing[]>>();
  private readonly places = new Map<string, Standing>();
  private readonly priorities = new Map<number, number>();

  /** @param isSilent whether the ticket's waiter has let a turn pass: it comes last */
  constructor(
    private readonly order: TurnOrder,
    private readonly isSilent: (ticket: Ticket) => boolean,
  ) {}

  get size(): number {
    return this.places.size;
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
    const place = { ticket, arrival, isSilent, lane };
    this.places.set(ticket.id, place);
    const lanes = this.groups.get(ticket.slots) ?? new Map<string, Standing[]>();
    this.groups.set(ticket.slots, lanes);
    const places = lanes.get(lane) ?? [];
    lanes.set(lane, places);
    places.splice(this.indexIn(places, place), 0, place);
    count(this.priorities, priority, 1);
    this.slots.add(ticket);
  }

  /** Does nothing where the ticket is not here. */
  remove(ticketId: string): void {
    const place = this.places.get(ticketId);
    if (!place) return;
    const { ticket, lane } = place;
    this.places.delete(ticketId);
    const lanes = this.groups.get(ticket.slots);
    const places = lanes?.get(lane);
    places?.splice(this.indexIn(places, place), 1);
    if (places?.length === 0) lanes?.delete(lane);
    if (lanes?.size === 0) this.groups.delete(ticket.slots);
    count(this.priorities, priorityOf(ticket), -1);
    this.slots.remove(ticket);
  }

  /** @param isEligible whether tickets of these slots can have the slot */
  first(isEligible: (slots: Ticket['slots']) => boolean): Ticket | undefined {
    let first: Standing | undefined;
    for (const [slots, lanes] of this.groups) {
      if (!isEligible(slots)) continue;
      for (const [place] of lanes.values()) if (place && (!first || this.compare(place, first) < 0)) first = place;
    }
    return first?.ticket;
  }

  private compare(a: Standing, b: Standing): number {
    return Number(a.isSilent) - Number(b.isSilent) || this.order.compare(a.ticket, b.ticket) || a.arrival - b.arrival;
  }

  /** Where the place stands in its lane, or would. */
  private indexIn(places: readonly Standing[], place: Standing): number {
    let [from, to] = [0, places.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.compare(places[middle] as Standing, place) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
