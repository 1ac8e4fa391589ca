import type { Ticket } from '../../shared/protocol';
import { slotNames, wantsSlot } from '../../shared/slots';

/**
 * The slots that some tickets name or count. Each question about a slot is answered without going through all tickets. Tickets that share a
 * list of names, as those of a queue do, count its names once.
 */
export class TicketSlots {
  /** How many tickets ask for each capacity … */
  private readonly capacities = new Map<number, number>();
  /** … and for each list of names. */
  private readonly lists = new Map<string[], number>();
  /** How many lists contain each name. */
  private readonly names = new Map<string, number>();

  constructor(tickets: Iterable<Ticket> = []) {
    for (const ticket of tickets) this.add(ticket);
  }

  /** @returns whether the ticket adds a list of names that no other ticket shares */
  add({ slots }: Ticket): boolean {
    return this.count(slots, 1) === 1;
  }

  /** @returns whether the ticket was the last one with its list of names */
  remove({ slots }: Ticket): boolean {
    return this.count(slots, -1) === 0;
  }

  private count(slots: Ticket['slots'], change: 1 | -1): number | undefined {
    if (typeof slots === 'number') {
      count(this.capacities, slots, change);
      return undefined;
    }
    const now = count(this.lists, slots, change);
    if (now === (change === 1 ? 1 : 0)) for (const name of slots) count(this.names, name, change);
    return now;
  }

  /** True if some ticket names this slot, or counts it. */
  has(slot: string): boolean {
    return this.names.has(slot) || wantsSlot(this.capacity, slot);
  }

  /** The slots of a ticket that does not name or count this slot, if there is such a ticket. */
  without(slot: string): Ticket['slots'] | undefined {
    for (const counted of this.capacities.keys()) if (!wantsSlot(counted, slot)) return counted;
    for (const list of this.lists.keys()) if (!list.includes(slot)) return list;
    return undefined;
  }

  /** True if some ticket uses numbered slots. Its waiter also accepts slots that an operator has added. */
  get counts(): boolean {
    return this.capacities.size > 0;
  }

  slots(): Set<string> {
    return new Set([...slotNames(this.capacity), ...this.names.keys()]);
  }

  /** A ticket's list with just these names, in whatever order. */
  listOf(names: readonly string[]): string[] | undefined {
    const wanted = new Set(names);
    for (const list of this.lists.keys()) {
      if (list.length === wanted.size && list.every((name) => wanted.has(name))) return list;
    }
    return undefined;
  }

  /** How many different names there would be with these. */
  namesWith(names: readonly string[]): number {
    return this.names.size + names.filter((name) => !this.names.has(name)).length;
  }

  /** The most slots that one of the tickets counts. */
  get capacity(): number {
    let most = 0;
    for (const capacity of this.capacities.keys()) most = Math.max(most, capacity);
    return most;
  }
}

/** Adds to a count, or subtracts from it. @returns the new count */
export function count<K>(counts: Map<K, number>, key: K, change: number): number {
  const now = (counts.get(key) ?? 0) + change;
  if (now > 0) counts.set(key, now);
  else counts.delete(key);
  return now;
}
