import type { SlotState, Ticket } from '../../shared/protocol';

/** A slot for which a turn is under way, or that is reserved. */
export type OfferedSlot = SlotState & { at: 'offered' };

/**
 * The turns that are under way, and the slots that are reserved for an accumulator: a caller that keeps permits while it waits for
 * more. When such a caller has used a turn, its next ticket comes in a moment. Until then the slots that it would take are not for the
 * waiters behind it: they would use one while the accumulator keeps the others for nothing.
 */
export class Turns {
  /** @param slots the states of all slots; this part writes reservations */
  constructor(private readonly slots: Map<string, SlotState>) {}

  /** The tickets that have a turn. */
  ticketIds(): Set<string> {
    const ticketIds = new Set<string>();
    for (const { ticketId } of this.offered()) ticketIds.add(ticketId);
    return ticketIds;
  }

  /** Whether the ticket has a turn for the slot, or the slot is reserved for the ticket's caller. */
  isOf(slot: string, ticketId: string): boolean {
    const state = this.slots.get(slot);
    return state?.at === 'offered' && state.ticketId === ticketId;
  }

  slotsOf(ticketId: string): string[] {
    return [...this.slots.keys()].filter((slot) => this.isOf(slot, ticketId));
  }

  /**
   * Reserves the slot for an accumulator that has a turn now and would take the slot next.
   *
   * @param wants whether the waiter would take the slot
   * @returns `false` when there is no such accumulator
   */
  reserve(
    slot: string,
    ticketOf: (id: string) => Ticket | undefined,
    wants: (waiter: Ticket, untilMs: number) => boolean,
  ): boolean {
    const taken = new Map<string, number>();
    for (const { ticketId } of this.offered()) taken.set(ticketId, (taken.get(ticketId) ?? 0) + 1);
    for (const { ticketId, untilMs, reserved } of this.offered()) {
      const ticket = reserved ? undefined : ticketOf(ticketId);
      if (!ticket || !wants(ticket, untilMs)) continue;
      const { permits = 1, kept = permits } = ticket;
      if ((taken.get(ticketId) ?? 0) >= permits - kept) continue;
      this.slots.set(slot, { at: 'offered', ticketId, untilMs, reserved: true });
      return true;
    }
    return false;
  }

  endReservations(): void {
    for (const [slot, state] of this.slots) {
      if (state.at === 'offered' && state.reserved) this.slots.set(slot, { at: 'free' });
    }
  }

  private *offered(): Generator<OfferedSlot> {
    for (const state of this.slots.values()) if (state.at === 'offered') yield state;
  }
}
