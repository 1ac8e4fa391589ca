import { nextOf } from '../../shared/key-pool';
import type { Ticket } from '../../shared/protocol';
import { priorityOf } from '../../shared/turn-order';
import { probeAfterMs } from './probe-interval';
import type { InheritanceCommand } from './queue-command';

/** So many other queues are told of each better priority. */
const MAX_HEIRS = 100;

/**
 * What the queues of several resources tell each other, so that no caller waits behind work of lower priority without a bound. A
 * caller may keep a permit of one resource (its key's, `<resource>~set`, another one of its set) while it waits in the line of another.
 * Those who wait for the first then wait for the second, too. So the queue of the second raises the caller's ticket to the best
 * priority in the line of the first:
 *
 * - It asks for that while somebody of a better priority than the caller's is in line.
 * - A queue tells those that have asked, as often as its best priority gets better. The queue of a key or of `<resource>~set` tells
 *   that of the resource unasked: it may not have been there when that one asked.
 *
 * Pure. Where all have one priority, nobody asks.
 */
export class Inheritance {
  /** The best priority in this line that was told. */
  private told = Number.POSITIVE_INFINITY;
  /** The resources whose queues are told of each better one … */
  private readonly heirs = new Set<string>();
  /** … and those of them that are to be told now. */
  private readonly owed = new Set<string>();
  /** When a ticket's question was asked first, and when it is due again. */
  private readonly asked = new WeakMap<Ticket, { sinceMs: number; againMs: number }>();
  private readonly next: string | undefined;

  constructor(private readonly resource: string) {
    this.next = nextOf(resource);
    if (this.next !== undefined) this.heirs.add(this.next);
  }

  /** The queue of a resource asks. */
  asks(resource: string): void {
    if (resource === this.resource || this.heirs.size >= MAX_HEIRS) return;
    this.heirs.add(resource);
    this.owed.add(resource);
  }

  /** The queue of a resource was to be told, and has ended. */
  gone(resource: string): void {
    if (resource !== this.next) this.heirs.delete(resource);
  }

  /** What to ask and to tell now. Where the caller stops early, the rest comes later. @param waiting the tickets without a turn */
  *moves(waiting: Iterable<Ticket>, nowMs: number): Generator<InheritanceCommand> {
    const tickets = [...waiting];
    const best = tickets.reduce((least, ticket) => Math.min(least, priorityOf(ticket)), Number.POSITIVE_INFINITY);
    if (best < this.told) for (const heir of this.heirs) this.owed.add(heir);
    this.told = best;
    for (const to of this.owed) {
      this.owed.delete(to);
      if (best < Number.POSITIVE_INFINITY) yield { do: 'pass-on', to, priorityKey: best };
    }
    for (const ticket of tickets) {
      if (!ticket.inherits || priorityOf(ticket) <= best || !this.isDue(ticket, nowMs)) continue;
      for (const of of ticket.inherits) yield { do: 'ask-priority', of };
    }
  }

  /** At once, and then after a quarter of the time since. */
  private isDue(ticket: Ticket, nowMs: number): boolean {
    const { sinceMs, againMs } = this.asked.get(ticket) ?? { sinceMs: nowMs, againMs: nowMs };
    if (nowMs < againMs) return false;
    this.asked.set(ticket, { sinceMs, againMs: nowMs + probeAfterMs(nowMs - sinceMs, 1) });
    return true;
  }
}
