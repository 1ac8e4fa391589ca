import type { InUse } from './in-use';
import type { Line } from './line';

/**
 * Which slots matter now, given the line and what an operator has set. The queue has three words for it.
 *
 * - A waiter is **eligible** for a slot in use that its ticket names or counts ({@link InUse.isEligible}).
 * - A slot is **wanted** if a waiter without a turn is eligible for it, or if it is out of use, and so the queue itself is to claim it.
 * - A slot is **out of use** if acquirers try it, and an operator has taken it away. Any other slot that is not in use need not be kept from
 *   acquirers: it is just not offered.
 */
export class Wanted {
  constructor(
    private readonly line: Line,
    private readonly inUse: InUse,
  ) {}

  isWanted(slot: string): boolean {
    if (!this.inUse.has(slot)) return this.isOutOfUse(slot);
    const { waitingSlots } = this.line;
    return waitingSlots.has(slot) || (waitingSlots.counts && this.inUse.hasAdded(slot));
  }

  isOutOfUse(slot: string): boolean {
    return !this.inUse.has(slot) && (this.inUse.isDeployed(slot) || this.line.slots.has(slot));
  }

  /** All wanted slots. */
  slots(): Iterable<string> {
    const { slots, waitingSlots } = this.line;
    if (!this.inUse.override) return waitingSlots.slots();
    const named = [...waitingSlots.slots(), ...this.inUse.names(), ...slots.slots()];
    return new Set(named.filter((slot) => this.isWanted(slot)));
  }
}
