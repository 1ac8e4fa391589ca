import { priorityOf } from './priority';
import type { QueueView, Ticket } from './protocol';
import { setLast } from './set-last';
import { byteLength } from './utf8';

/** For how many priorities, and for how many fairness keys, shares are remembered: the last used, and those that are furthest ahead. */
const MAX_LEVELS = 100;
const MAX_KEYS = 1_000;

/** How many bytes of keys and their shares, as JSON, fit into what one run of the queue hands to the next … */
const MAX_KEY_BYTES = 150_000;
/** … and how many of them a key of 64 bytes takes at most, together with its share. */
const MOST_KEY_BYTES = 400;
const SHARE_BYTES = 24;

interface Level {
  /** The virtual time up to which this level has been served: a key that was away joins at this time. */
  nowAt: number;
  /** The virtual time up to which each key has had its share. */
  readonly servedTo: Map<string, number>;
}

/**
 * Whose turn it is: a caller that keeps a part of what it wants, then the most urgent `priorityKey`, then the `fairnessKey` that has
 * had least for its weight, then the permit pool that has least (an acquirer of one permit counts as a pool that has none), then the
 * ticket that has waited longest. Pure; it knows no slots and no clock.
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

  /** The first of `tickets`; of equals, the ticket that comes first in them. */
  first(tickets: Iterable<Ticket>): Ticket | undefined {
    let first: Ticket | undefined;
    for (const ticket of tickets) {
      if (!first || this.compare(ticket, first) < 0) first = ticket;
    }
    return first;
  }

  /** The tickets in the order in which they would be served if no other came. For showing. */
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
      if (servedTo <= level.nowAt) level.servedTo.delete(key); // the same as a key that was never here
    }
    const all = [...this.levels.values()].map(({ servedTo }) => servedTo);
    const keys = all.reduce((sum, { size }) => sum + size, 0);
    const isTooMuch = keys > MAX_KEYS || (keys * MOST_KEY_BYTES > MAX_KEY_BYTES && bytesOf(all) > MAX_KEY_BYTES);
    if (isTooMuch) forgive(all.reduce((a, b) => (b.size > a.size ? b : a)));
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

  /** Less than 0 if `a` has its turn first. */
  compare(a: Ticket, b: Ticket): number {
    return (
      Number(!a.kept) - Number(!b.kept) ||
      priorityOf(a) - priorityOf(b) ||
      this.startOf(a) - this.startOf(b) ||
      permitsWith(a) - permitsWith(b) ||
      a.sinceMs - b.sinceMs
    );
  }

  private startOf(ticket: Ticket): number {
    const level = this.levels.get(priorityOf(ticket));
    return level ? Math.max(level.nowAt, level.servedTo.get(keyOf(ticket)) ?? 0) : 0;
  }

  private level(ticket: Ticket): Level {
    const priorityKey = priorityOf(ticket);
    const level = this.levels.get(priorityKey) ?? { nowAt: 0, servedTo: new Map() };
    setLast(this.levels, priorityKey, level, MAX_LEVELS);
    return level;
  }
}

function bytesOf(shares: readonly Map<string, number>[]): number {
  let bytes = 0;
  for (const servedTo of shares)
    for (const key of servedTo.keys()) bytes += byteLength(JSON.stringify(key)) + SHARE_BYTES;
  return bytes;
}

/** Forgets the key that has the least to wait for the others. */
function forgive(servedTo: Map<string, number>): void {
  let [least] = servedTo;
  for (const entry of servedTo) if (least && entry[1] < least[1]) least = entry;
  if (least) servedTo.delete(least[0]);
}

function permitsWith({ pool }: Ticket): number {
  return pool?.nth ?? 1;
}

function keyOf(ticket: Ticket): string {
  return ticket.fairnessKey ?? '';
}

function weightOf(ticket: Ticket): number {
  return Math.min(1_000, Math.max(0.001, ticket.fairnessWeight || 1));
}
