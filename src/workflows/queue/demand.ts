import type { Ticket } from '../../shared/protocol';
import { slotNames, wantsSlot } from '../../shared/slots';

/** Which slots some tickets would take, asked slot by slot without a walk through all tickets. */
export class Demand {
  /** How many tickets ask for each capacity. */
  private readonly capacities = new Map<number, number>();
  private readonly names = new Map<string, number>();

  constructor(tickets: Iterable<Ticket> = []) {
    for (const ticket of tickets) this.add(ticket);
  }

  add(ticket: Ticket): void {
    this.count(ticket, 1);
  }

  remove(ticket: Ticket): void {
    this.count(ticket, -1);
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

  /** How many different names there would be with this ticket. */
  namesWith({ slots }: Ticket): number {
    if (typeof slots === 'number') return this.names.size;
    return this.names.size + slots.filter((name) => !this.names.has(name)).length;
  }

  private count({ slots }: Ticket, change: number): void {
    if (typeof slots === 'number') add(this.capacities, slots, change);
    else for (const name of slots) add(this.names, name, change);
  }

  private get capacity(): number {
    let most = 0;
    for (const capacity of this.capacities.keys()) most = Math.max(most, capacity);
    return most;
  }
}

function add<K>(counts: Map<K, number>, key: K, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
