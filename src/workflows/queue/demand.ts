import type { Ticket } from '../../shared/protocol';
import { slotNames, wantsSlot } from '../../shared/slots';

/**
 * Which slots some tickets would take, asked slot by slot without a walk through all tickets. It counts the names of a list once
 * for all tickets that share the list, as those of {@link Tickets} do.
 */
export class Demand {
  /** How many tickets ask for each capacity … */
  private readonly capacities = new Map<number, number>();
  /** … and for each list of names. */
  private readonly lists = new Map<string[], number>();
  /** How many lists have each name. */
  private readonly names = new Map<string, number>();

  constructor(tickets: Iterable<Ticket> = []) {
    for (const ticket of tickets) this.add(ticket);
  }

  /** @returns whether it brings a list of names that no other one shares */
  add({ slots }: Ticket): boolean {
    return this.count(slots, 1) === 1;
  }

  /** @returns whether it was the last one with its list of names */
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

  /** Whether one of them would take this slot by itself. */
  has(slot: string): boolean {
    return this.names.has(slot) || wantsSlot(this.capacity, slot);
  }

  /** Whether one of them counts its slots, and so takes those that an operator has added, too. */
  get counts(): boolean {
    return this.capacities.size > 0;
  }

  slots(): Set<string> {
    return new Set([...slotNames(this.capacity), ...this.names.keys()]);
  }

  /** The list with just these names, if one of them has it. */
  listOf(names: readonly string[]): string[] | undefined {
    for (const list of this.lists.keys()) if (isSame(list, names)) return list;
    return undefined;
  }

  /** How many different names there would be with these. */
  namesWith(names: readonly string[]): number {
    return this.names.size + names.filter((name) => !this.names.has(name)).length;
  }

  /** The most slots that one of them counts. */
  get capacity(): number {
    let most = 0;
    for (const capacity of this.capacities.keys()) most = Math.max(most, capacity);
    return most;
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, index) => name === b[index]);
}

/** @returns how many there are now */
function count<K>(counts: Map<K, number>, key: K, change: number): number {
  const now = (counts.get(key) ?? 0) + change;
  if (now > 0) counts.set(key, now);
  else counts.delete(key);
  return now;
}
