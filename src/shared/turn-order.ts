import type { QueueView, Ticket } from './protocol';

/** Temporal's default priority, the middle of its five. */
const DEFAULT_PRIORITY_KEY = 3;

interface Level {
  /** The virtual time to which this level has been served: where a key that was away joins in. */
  nowAt: number;
  /** Up to which virtual time each key has had its share. */
  readonly servedTo: Map<string, number>;
}

/**
 * Whose turn it is: the most urgent `priorityKey`, then the `fairnessKey` that has had least for its weight, then who has
 * waited longest. Pure; it knows no slots and no clock.
 *
 * Fairness is start-time fair queuing (Goyal, Vin and Cheng, 1996): each turn moves its key on by 1/weight in virtual time,
 * and the key that is furthest behind goes first. A key that was away joins at the present, so it can't save up turns.
 */
export class TurnOrder {
  private readonly levels: Map<number, Level>;

  constructor(shares: QueueView['shares'] = []) {
    this.levels = new Map(
      shares.map(([priorityKey, nowAt, keys]) => [priorityKey, { nowAt, servedTo: new Map(keys) }] as const),
    );
  }

  /** The first of `tickets`; of equals, the one that comes first in them. */
  first(tickets: Iterable<Ticket>): Ticket | undefined {
    let first: Ticket | undefined;
    for (const ticket of tickets) {
      if (!first || this.compare(ticket, first) < 0) first = ticket;
    }
    return first;
  }

  /** As they would be served if nobody else came. For showing. */
  sort(tickets: Iterable<Ticket>): Ticket[] {
    const order = new TurnOrder(this.shares());
    const left = new Set(tickets);
    const sorted: Ticket[] = [];
    for (let next = order.first(left); next; next = order.first(left)) {
      left.delete(next);
      order.charge(next);
      sorted.push(next);
    }
    return sorted;
  }

  /** Counts a turn against the ticket's key. */
  charge(ticket: Ticket): void {
    const level = this.level(ticket);
    level.nowAt = this.startOf(ticket);
    level.servedTo.set(keyOf(ticket), level.nowAt + 1 / weightOf(ticket));
    for (const [key, servedTo] of level.servedTo) {
      if (servedTo <= level.nowAt) level.servedTo.delete(key); // no different from a key that was never here
    }
  }

  /** Takes a charge back: the turn was not used. */
  refund(ticket: Ticket): void {
    const { servedTo } = this.level(ticket);
    const charged = servedTo.get(keyOf(ticket));
    if (charged !== undefined) servedTo.set(keyOf(ticket), charged - 1 / weightOf(ticket));
  }

  shares(): QueueView['shares'] {
    return [...this.levels].map(([priorityKey, { nowAt, servedTo }]) => [priorityKey, nowAt, [...servedTo]]);
  }

  private compare(a: Ticket, b: Ticket): number {
    return priorityOf(a) - priorityOf(b) || this.startOf(a) - this.startOf(b) || a.sinceMs - b.sinceMs;
  }

  private startOf(ticket: Ticket): number {
    const level = this.levels.get(priorityOf(ticket));
    return level ? Math.max(level.nowAt, level.servedTo.get(keyOf(ticket)) ?? 0) : 0;
  }

  private level(ticket: Ticket): Level {
    const priorityKey = priorityOf(ticket);
    let level = this.levels.get(priorityKey);
    if (!level) {
      level = { nowAt: 0, servedTo: new Map() };
      this.levels.set(priorityKey, level);
    }
    return level;
  }
}

function priorityOf(ticket: Ticket): number {
  return ticket.priorityKey || DEFAULT_PRIORITY_KEY;
}

function keyOf(ticket: Ticket): string {
  return ticket.fairnessKey ?? '';
}

function weightOf(ticket: Ticket): number {
  return Math.min(1_000, Math.max(0.001, ticket.fairnessWeight || 1));
}
