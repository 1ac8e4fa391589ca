import type { Ticket } from '../../shared/protocol';
import { Doubts } from './doubts';
import type { InUse } from './in-use';
import type { Line } from './line';
import { type OfferTimeouts, waiterOf } from './offer-timeouts';
import type { Offers } from './offers';
import type { QueueCommand } from './queue-command';
import type { RollCall } from './roll-call';
import type { Slot, SlotTable } from './slot-table';
import { TicketSlots } from './ticket-slots';

/**
 * Decides which tickets get into the line (the tickets that the queue keeps) and which leave it, from what waiters say and what the queue finds
 * out about them. A line may be too long for a ticket (`maxWaiting`). The queue refuses the ticket only when it is sure: not while the ticket is
 * in doubt ({@link Doubts}), or a {@link RollCall} asks who is still there.
 */
export class Admission {
  private readonly doubts = new Doubts();

  constructor(
    private readonly slots: SlotTable,
    private readonly line: Line,
    private readonly offers: Offers,
    private readonly timeouts: OfferTimeouts,
    private readonly inUse: InUse,
    private readonly rollCall: RollCall,
  ) {}

  /** See `QueueState.enqueue`. @param hadTurn whether its waiter was in line before, although the queue may since have taken it for gone */
  enqueue(ticket: Ticket, nowMs: number, hadTurn = false): boolean {
    const { id, maxWaiting } = ticket;
    const known = this.line.ticket(id);
    if (!this.inUse.hasEnoughFor(ticket)) {
      if (known) this.drop(known); // Q7
      return false;
    }
    this.rollCall.heard(ticket, nowMs);
    if (!known) this.dropEarlierRuns(ticket);
    const isBounded = maxWaiting !== undefined && !hadTurn && !known;
    const isFull = isBounded && this.offers.line.waitingCount >= maxWaiting;
    const { whenFull } = ticket;
    if (isFull && !whenFull && !this.mayBeFree(ticket) && !this.beginRollCall(nowMs)) return false;
    const isTaken = this.take(ticket);
    // A waiter that was beaten at its turn may be older than waiters that came meanwhile.
    if (isTaken && (isFull || (whenFull && hadTurn))) this.doubts.add(id);
    return isTaken;
  }

  private take(ticket: Ticket): boolean {
    const known = this.line.ticket(ticket.id);
    if (!this.line.hasRoomFor(ticket, this.inUse.override)) return false;
    const isNextWaiter = known?.waiter.runId !== ticket.waiter.runId; // … of one acquirer, or its first
    // The Workflow in which a client's ticket waits sends it again, whether the client lives or not.
    if (isNextWaiter || ticket.identity === undefined) this.timeouts.heard(waiterOf(ticket));
    if (known && isNextWaiter) this.offers.withdrawFrom(known, 'unknown');
    this.line.add(ticket);
    if (ticket.kept && !known) this.offers.endTurnBefore(ticket);
    return true;
  }

  /** See `QueueState.missed`. */
  missed(ticket: Ticket, slot: string, nowMs: number): boolean {
    this.timeouts.heardLate(waiterOf(ticket));
    const state = this.slots.get(slot);
    // The slot was free, and another acquirer has it now: most likely the first waiter that let its turn pass.
    if (state.at === 'offered' && state.unheard) this.timeouts.heardLate(state.unheard.first);
    if (this.offers.isOf(slot, ticket.id)) {
      this.timeouts.shrink();
      this.offers.withdraw(slot, ticket, 'unknown');
      this.offers.endReservations();
    }
    return this.enqueue(ticket, nowMs, true);
  }

  /** See `QueueState.declined`. */
  declined(ticketId: string, runId?: string): boolean {
    const ticket = this.line.ticket(ticketId);
    if (!ticket || (runId !== undefined && ticket.waiter.runId !== undefined && ticket.waiter.runId !== runId))
      return false;
    const hadTurn = this.drop(ticket);
    // With a turn, it is the client that passes it on. Without a turn, the Workflow in which the client's ticket waits leaves after five
    // minutes, whether the client lives or not.
    if (hadTurn || ticket.identity === undefined) this.timeouts.heard(waiterOf(ticket));
    return hadTurn;
  }

  /** The turn found no Workflow: its waiter is gone. */
  undeliverable(slot: string, ticketId: string): void {
    const ticket = this.offers.isOf(slot, ticketId) ? this.line.ticket(ticketId) : undefined;
    if (ticket) this.dropAllOf(ticket);
  }

  /** A waiter that was asked whether it is there has answered, or is gone. */
  present(ticket: Ticket, isThere: boolean, nowMs: number): void {
    this.rollCall.answered(ticket, isThere, nowMs);
    if (!isThere) this.dropAllOf(ticket);
  }

  // --- Out of the line ---

  /** Takes the ticket out of the line, and its turn back: `true` if it had one. */
  private drop(ticket: Ticket): boolean {
    const hadTurn = this.offers.withdrawFrom(ticket, 'free');
    this.line.remove(ticket.id);
    return hadTurn;
  }

  /** The run that waits through this ticket has ended, and with it whatever else it waited for. */
  private dropAllOf(ticket: Ticket): void {
    for (const other of this.line.besides(ticket)) if (other.waiter.runId === ticket.waiter.runId) this.drop(other);
  }

  /** Drops the tickets of earlier runs: only one run of a Workflow exists at a time, so earlier runs wait no more. */
  private dropEarlierRuns(ticket: Ticket): void {
    for (const other of this.line.besides(ticket)) if (other.waiter.runId !== ticket.waiter.runId) this.drop(other);
  }

  private refuse(ticket: Ticket, superseded = false): QueueCommand {
    this.drop(ticket);
    return { do: 'refuse', ticket, ...(superseded && { superseded }) };
  }

  /** Refuses the tickets that want more permits than an operator has left. */
  *refuseAccumulators(): Generator<QueueCommand> {
    if (this.inUse.override?.capacity === undefined) return;
    for (const ticket of this.line.accumulators()) if (!this.inUse.hasEnoughFor(ticket)) yield this.refuse(ticket); // Q7
  }

  // --- Bounds on the line ---

  /** The last run of the queue hands these tickets on as {@link inDoubt}. */
  doubt(ticketIds: readonly string[]): void {
    for (const id of ticketIds) this.doubts.add(id);
  }

  get inDoubt(): string[] {
    return this.doubts.all;
  }

  /** Refuses the tickets for which the line is too long, as far as the queue knows by now. */
  *settleDoubts(nowMs: number): Generator<QueueCommand> {
    const mayBeFree = (it: Ticket) => this.mayBeFree(it);
    const mayBeGone = () => this.beginRollCall(nowMs);
    for (const { ticket, superseded } of this.doubts.settle(this.offers.line.without(), mayBeFree, mayBeGone))
      yield this.refuse(ticket, superseded);
  }

  /** Whether the queue is finding out who of the waiters is still there. */
  private beginRollCall(nowMs: number): boolean {
    return this.rollCall.begin(this.offers.line.without(), nowMs);
  }

  /** Whether a slot for which the waiter is eligible is free, or may be. */
  private mayBeFree(ticket: Ticket): boolean {
    for (const slot of new Set([...new TicketSlots([ticket]).slots(), ...this.inUse.names()])) {
      if (this.inUse.isEligible(ticket, slot) && !isTaken(this.slots.get(slot))) return true;
    }
    return false;
  }
}

/** Whether a holder has the slot and keeps it: the permit is neither closing nor on its way back from the queue. */
function isTaken(state: Slot): boolean {
  if (state.at === 'probing') return state.heldSinceMs !== undefined && !state.closed;
  return state.at === 'offered' || (state.at === 'held' && state.runId === undefined);
}
