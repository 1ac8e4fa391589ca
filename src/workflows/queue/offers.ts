import type { Ticket, UnheardTurns } from '../../shared/protocol';
import type { InUse } from './in-use';
import type { Line } from './line';
import { OFFER_TIMEOUT_MS, type OfferTimeouts } from './offer-timeouts';
import type { QueueCommand } from './queue-command';
import type { SlotAt, SlotTable } from './slot-table';
import type { Wanted } from './wanted';

/** The most waiters that have a turn for one slot at once. */
const MAX_TURNS = 16;

/** Turns that got no reply. `waiter` had the last turn; of several turns at once, the first of them. */
export type OverdueTurns = UnheardTurns & { waiter: string };

/**
 * Gives turns for free slots, and takes them back. An offered slot is the record of a turn, so a ticket's turns are found in the table.
 *
 *     free --offer--> offered --the ticket leaves--> free, for the next
 *                        |--beaten to it: withdraw--> unknown, the ticket keeps its place
 *                        '--no reply in time: overdue--> probed, and the ticket is dropped; a live waiter comes again by itself
 *
 * Some slots are reserved for an accumulator: a caller that keeps permits while it waits for more. When such a caller has used a turn,
 * its next ticket comes in a moment. Until then, the waiters behind it do not get the slots for which it is eligible: they would use one of
 * these slots while the accumulator keeps its permits for nothing.
 */
export class Offers {
  constructor(
    private readonly slots: SlotTable,
    private readonly unsettledLine: Line,
    private readonly timeouts: OfferTimeouts,
    private readonly inUse: InUse,
    private readonly wanted: Wanted,
  ) {}

  /** The line, brought up to date on which tickets have turns. */
  get line(): Line {
    this.unsettledLine.settle(this.ticketIds());
    return this.unsettledLine;
  }

  /** Whether the ticket has a turn for the slot, or the slot is reserved for the ticket's caller. */
  isOf(slot: string, ticketId: string): boolean {
    const state = this.slots.get(slot);
    return state.at === 'offered' && state.ticketId === ticketId;
  }

  /**
   * Gives a turn for a free slot to the first waiter in turn order. A free slot without a taker is forgotten: a newcomer may take it unnoticed.
   * If the last turns got no reply, it gives twice as many turns at once: their tickets leave the line, and waiters that are alive and were
   * beaten come back.
   */
  give(slot: string, unheard: UnheardTurns | undefined, nowMs: number): QueueCommand | undefined {
    if (this.unsettledLine.hasAccumulator && this.reserve(slot, nowMs)) return undefined;
    const ticket = this.takeFirst(slot); // Q3
    if (!ticket) {
      this.slots.forget(slot);
      return undefined;
    }
    this.unsettledLine.charge(ticket);
    const untilMs = nowMs + OFFER_TIMEOUT_MS;
    if (!unheard) {
      this.slots.offer(slot, ticket.id, untilMs);
      return { do: 'offer', slot, ticket };
    }
    const also: Ticket[] = [];
    while (also.length + 1 < Math.min(2 * unheard.turns, MAX_TURNS)) {
      const next = this.takeFirst(slot);
      if (!next) break;
      also.push(next);
      this.unsettledLine.remove(next.id);
    }
    this.slots.offer(slot, ticket.id, untilMs, { turns: 1 + also.length, first: unheard.first });
    return { do: 'offer', slot, ticket, also };
  }

  private takeFirst(slot: string): Ticket | undefined {
    if (!this.wanted.isWanted(slot)) return undefined;
    return this.unsettledLine.takeFirst((slots) => this.inUse.isEligible({ slots }, slot)); // Q1
  }

  /** Whether a waiter has a turn for a slot that an operator has taken away since: the waiter may still claim the slot. */
  get hasTurnTooMany(): boolean {
    for (const [slot, { ticketId, reserved }] of this.slots.in('offered')) {
      const ticket = reserved ? undefined : this.unsettledLine.ticket(ticketId);
      if (ticket && !this.inUse.isEligible(ticket, slot)) return true;
    }
    return false;
  }

  // --- Turns that end ---

  /** When the queue stops waiting for the reply to the turn. It hurries only if another waiter wants the slot. */
  overdueMs(slot: string, { untilMs }: SlotAt<'offered'>): number {
    return this.wanted.isWanted(slot) ? this.timeouts.shortened(untilMs) : untilMs;
  }

  /** No reply has come: the turn was used, or its waiter is dead or slow. @returns what the probe is to remember of the turn, if it was a turn */
  overdue(state: SlotAt<'offered'>): OverdueTurns | undefined {
    const ticket = this.unsettledLine.ticket(state.ticketId);
    const waiter = ticket ? this.timeouts.suspect(ticket) : '';
    const { turns = 1, first = waiter } = state.unheard ?? {};
    this.used(state);
    return state.reserved ? undefined : { turns, waiter, first };
  }

  /** The turn was used, or its waiter is dead or slow: its ticket leaves the line. */
  used({ ticketId, reserved }: SlotAt<'offered'>): void {
    if (!reserved) this.unsettledLine.remove(ticketId);
  }

  /** Takes back the turn that the ticket may have: `true` if it had one. */
  withdrawFrom(ticket: Ticket, to: 'free' | 'unknown'): boolean {
    const turns = [...this.slots.in('offered')].filter(([slot]) => this.isOf(slot, ticket.id));
    for (const [slot] of turns) this.withdraw(slot, ticket, to);
    return turns.length > 0;
  }

  withdraw(slot: string, ticket: Ticket, to: 'free' | 'unknown'): void {
    const state = this.slots.get(slot);
    if (state.at === 'offered' && !state.reserved) this.unsettledLine.refund(ticket);
    if (to === 'free') this.slots.free(slot);
    else this.slots.forget(slot);
  }

  // --- Accumulators ---

  /** Reserves the slot for an accumulator that has a turn now and is eligible for the slot. `false` when there is no such accumulator. */
  private reserve(slot: string, nowMs: number): boolean {
    const taken = new Map<string, number>();
    for (const [, { ticketId }] of this.slots.in('offered')) taken.set(ticketId, (taken.get(ticketId) ?? 0) + 1);
    for (const [, { ticketId, untilMs, reserved }] of this.slots.in('offered')) {
      const ticket = reserved ? undefined : this.unsettledLine.ticket(ticketId);
      // A reservation that is overdue at once would be probed and made again endlessly.
      if (!ticket || this.timeouts.shortened(untilMs) <= nowMs || !this.inUse.isEligible(ticket, slot)) continue;
      const { permits = 1, kept = permits } = ticket;
      if ((taken.get(ticketId) ?? 0) >= permits - kept) continue;
      this.slots.reserve(slot, ticketId, untilMs);
      return true;
    }
    return false;
  }

  endReservations(): void {
    for (const [slot, { reserved }] of this.slots.in('offered')) if (reserved) this.slots.free(slot);
  }

  /** An accumulator that lines up for its next permit has used its turn before. There is one at a time. */
  endTurnBefore(next: Ticket): void {
    for (const id of this.ticketIds()) {
      if (id !== next.id && this.unsettledLine.ticket(id)?.permits) this.unsettledLine.remove(id);
    }
    this.endReservations();
  }

  /** The tickets that have a turn. */
  private ticketIds(): Set<string> {
    const ticketIds = new Set<string>();
    for (const [, { ticketId }] of this.slots.in('offered')) ticketIds.add(ticketId);
    return ticketIds;
  }
}
