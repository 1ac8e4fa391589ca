import { nextOf } from '../../shared/key-names';
import { priorityOf } from '../../shared/priority';
import type { Ticket } from '../../shared/protocol';
import type { InheritanceCommand } from './queue-command';
import { MOST_MS } from './queue-command';

/** The most other queues to which the queue reports each higher priority. */
const MAX_HEIRS = 100;

/** The highest priority: no caller comes before callers of this priority. */
const BEST_PRIORITY_KEY = 1;

/** How soon the queue asks for a priority a second time: the other queue may not have run the first time. */
const AGAIN_MS = 1_000;

/** What this needs of the line: of the tickets without a turn, the highest priority, and those whose callers keep permits of other resources. */
interface Waiting {
  readonly bestPriority: number;
  inheriting(): Iterable<Ticket>;
}

/**
 * What the queues of several resources tell each other, so that no caller waits behind work of lower priority without a bound. A
 * caller may keep a permit of one resource (its key's, `<resource>~set`, another of its set) while it waits in the queue of a second
 * resource. Callers that wait for the first resource then also wait for the second. So the second queue raises the caller's ticket to the
 * highest priority in the first queue. A caller that keeps only a permit that admits it to the second resource gives way instead.
 *
 * - The second queue asks for that priority while a waiter of higher priority than the caller's is in it. For a caller that gives
 *   way, it asks once in any case: the caller may be alone in the queue, and the first queue may have reported its highest priority before.
 * - The first queue tells the queues that have asked, whenever its highest priority rises. The queue of a key or of
 *   `<resource>~set` tells the queue of the resource unasked: it may not have run when the question came.
 *
 * Pure. If all callers have one priority, a queue asks only for callers that give way.
 */
export class Inheritance {
  /** The highest priority in this queue, as the heirs know it. */
  private told = Number.POSITIVE_INFINITY;
  /** The resources whose queues are told of each higher priority … */
  private readonly heirs = new Set<string>();
  /** … and those of these resources whose queues are to be told now. */
  private readonly owed = new Set<string>();
  /** When a ticket's questions were asked first, when they are due again, and which of them are still to be sent. */
  private readonly asked = new WeakMap<Ticket, { sinceMs: number; againMs: number; unsent: string[] }>();
  private readonly next: string | undefined;
  /** The tickets for which the last run of the queue has asked. */
  private readonly former: WeakSet<Ticket>;

  /**
   * @param former the tickets that the last run of the queue has handed on
   * @param unasked the IDs of those for which the last run has not asked
   */
  constructor(
    private readonly resource: string,
    former: Iterable<Ticket> = [],
    unasked: Iterable<string> = [],
  ) {
    const toAsk = new Set(unasked);
    this.former = new WeakSet([...former].filter(({ id }) => !toAsk.has(id)));
    this.next = nextOf(resource);
    if (this.next !== undefined) this.heirs.add(this.next);
  }

  /** The queue of a resource asks. */
  asks(resource: string): void {
    if (resource === this.resource) return;
    if (this.heirs.size < MAX_HEIRS) this.heirs.add(resource);
    this.owed.add(resource);
  }

  /** The queue of a resource was to be told, and has ended. */
  gone(resource: string): void {
    if (resource !== this.next) this.heirs.delete(resource);
  }

  /** What to ask and to tell now. If the caller stops early, the rest comes later. */
  *moves(waiting: Waiting, nowMs: number): Generator<InheritanceCommand> {
    const best = waiting.bestPriority;
    if (best < this.told) for (const heir of this.heirs) this.owed.add(heir);
    this.told = best;
    for (const to of this.owed) {
      this.owed.delete(to);
      if (best < Number.POSITIVE_INFINITY) yield { do: 'pass-on', to, priorityKey: best };
    }
    for (const ticket of waiting.inheriting()) {
      if (!(priorityOf(ticket) > best || this.isNew(ticket))) continue;
      const unsent = this.questions(ticket, nowMs);
      for (let of = unsent.shift(); of !== undefined; of = unsent.shift()) yield { do: 'ask-priority', of };
    }
  }

  /** Whether an answer is to be sent, of which the next run of the queue would not know, or a question. */
  owesWord(waiting: Waiting): boolean {
    return this.owed.size > 0 || this.unasked(waiting).length > 0;
  }

  /** The IDs of the tickets for which the queue has not asked, or not all. */
  unasked(waiting: Waiting): string[] {
    return [...waiting.inheriting()].filter((ticket) => this.isNew(ticket)).map(({ id }) => id);
  }

  /** Whether the caller gives way, a waiter may have a higher priority, and not all questions have been asked for this ticket. */
  private isNew(ticket: Ticket): boolean {
    const isKnown = this.asked.get(ticket)?.unsent.length === 0 || this.former.has(ticket);
    return ticket.givesWay === true && priorityOf(ticket) > BEST_PRIORITY_KEY && !isKnown;
  }

  /** The resources to ask about now: at once, and then after a quarter of the time since. Whoever asks about one removes it. */
  private questions(ticket: Ticket, nowMs: number): string[] {
    const { sinceMs, againMs, unsent } = this.asked.get(ticket) ?? { sinceMs: nowMs, againMs: nowMs, unsent: [] };
    if (unsent.length > 0 || nowMs < againMs) return unsent;
    const due = [...(ticket.inherits ?? [])];
    const afterMs = Math.min(MOST_MS, Math.max(AGAIN_MS, (nowMs - sinceMs) / 4));
    this.asked.set(ticket, { sinceMs, againMs: nowMs + afterMs, unsent: due });
    return due;
  }
}
