import type { ClosingNotice, PreemptibleNotice, Ticket } from '../../shared/protocol';
import { setLast } from '../../shared/set-last';
import type { Drains } from './drains';
import { OFFER_TIMEOUT_MS, type OfferTimeouts } from './offer-timeouts';
import type { Offers, OverdueTurns } from './offers';
import type { Preemption } from './preemption';
import { probeAfterMs, type QueueCommand } from './queue-command';
import type { SlotTable } from './slot-table';

/** How many permits that have closed the queue remembers. */
const MAX_CLOSED = 2_000;

/**
 * Finds out whether slots are held: the queue asks with a probe, and a permit that it watches reports when it closes. The two messages may
 * overtake each other, and a permit may report twice that it closes.
 */
export class PermitWatch {
  /** The run whose `closing` came last. */
  private readonly lastClosed = new Map<string, string>();

  constructor(
    private readonly slots: SlotTable,
    private readonly offers: Offers,
    private readonly timeouts: OfferTimeouts,
    private readonly drains: Drains,
    private readonly preemption: Preemption,
  ) {}

  /** Asks whether the slot is held. @param overdue the turn for it that got no reply */
  probe(slot: string, preemptors: readonly Ticket[], overdue?: OverdueTurns): QueueCommand & { do: 'probe' } {
    this.lastClosed.delete(slot); // a permit that is asked while it ends sends another `closing`, which is news
    const asks = this.preemption.isConcerned(slot, preemptors) || undefined;
    this.slots.probe(slot, { asks, overdue });
    return { do: 'probe', slot, ...(asks && { asks }) };
  }

  /** A probe's answer: `held` if a permit took the `watch`. */
  probed(slot: string, held: boolean, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state.at !== 'probing') return;
    const { overdue, drainedBy } = state;
    if (!held || state.closed) {
      const isUnheard = overdue && !state.closed;
      if (isUnheard) this.timeouts.letPass(overdue.waiter);
      this.slots.free(slot, isUnheard ? overdue : undefined);
      return;
    }
    if (overdue) this.timeouts.clear(overdue.waiter);
    const sinceMs = state.heldSinceMs ?? nowMs;
    // A turn that was used a second ago has a permit that knows its queue. So there is no haste.
    const afterMs = overdue ? OFFER_TIMEOUT_MS : probeAfterMs(nowMs - sinceMs, this.slots.size);
    this.slots.hold(slot, { sinceMs, probeAtMs: nowMs + afterMs }, this.preemption.afterProbe(state, nowMs));
    if (drainedBy !== undefined) this.drained(slot, drainedBy);
  }

  /** A watched permit is about to end. */
  closing({ slot, runId, releasedBy }: ClosingNotice): void {
    if (releasedBy !== undefined && this.timeouts.isSilent(releasedBy)) this.timeouts.heardLate(releasedBy);
    if (this.slots.get(slot).at === 'unknown' || this.lastClosed.get(slot) === runId) return;
    setLast(this.lastClosed, slot, runId, MAX_CLOSED);
    this.close(slot, runId);
  }

  private close(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state.at === 'probing' || state.at === 'draining') this.slots.closedBeforeAnswer(slot, state, runId);
    // Old news, or the queue's own claim has ended without a message: a renewal will show.
    else if (state.at === 'drained' && state.runId !== runId) this.slots.keepOut(slot, state.runId, 0);
    else {
      if (state.at === 'offered') {
        this.offers.used(state); // it was served, and is done already
        this.timeouts.shrink();
        if (!state.reserved) this.offers.endReservations();
      }
      this.slots.free(slot);
    }
  }

  /** A permit that was asked says that it keeps the slot out of use. */
  drained(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state.at === 'probing') this.slots.drainedUnderProbe(slot, state, runId); // the probe's own answer is still to come
    if (this.lastClosed.get(slot) !== runId) this.drains.adopt(slot, runId);
  }

  /** A permit says that its holder may have to give way. */
  preemptible(notice: PreemptibleNotice, nowMs: number): void {
    if (this.lastClosed.get(notice.slot) === notice.runId) return;
    const used = this.preemption.answered(notice, nowMs);
    if (used) this.offers.used(used);
  }
}
