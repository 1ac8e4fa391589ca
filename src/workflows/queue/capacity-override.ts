import type { OverrideInput, OverrideState } from '../../shared/operator-protocol';
import type { Ticket } from '../../shared/protocol';
import { slotNames, wantsSlot } from '../../shared/slots';

/** An operator's override for a pool, and so which of its slots are in use. Pure; nothing is set at first. */
export class CapacityOverride {
  private lastVersion: number;

  constructor(private state?: OverrideState) {
    this.lastVersion = state?.version ?? 0;
  }

  /** `undefined` when nothing is set. */
  get current(): OverrideState | undefined {
    return this.state;
  }

  /** When the pause ends by itself. Infinity when it does not, or there is none. */
  get endsAtMs(): number {
    return this.state?.pausedUntilMs ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Takes the change, and says what is set now: back at what is deployed, nothing. A pause with an end shortens no other: an
   * operator's pause must not end because some holder was told to come back in a second.
   */
  change(input: OverrideInput, nowMs: number): OverrideState {
    const { slots, capacity = this.state?.capacity, pauseUntilMs, reason } = input;
    if (pauseUntilMs !== undefined && pauseUntilMs <= Math.max(this.pausedToMs, nowMs)) {
      return this.state ?? { version: this.lastVersion, slots, paused: false };
    }
    const { paused = pauseUntilMs !== undefined || this.paused } = input;
    const pausedUntilMs = pauseUntilMs ?? (input.paused === undefined ? this.state?.pausedUntilMs : undefined);
    // From the clock too, so that it also grows from one queue to the next, which knows nothing of the last.
    const version = Math.max(this.lastVersion + 1, nowMs);
    const isChanged = capacity !== undefined && capacity !== slotNames(slots).length;
    const state: OverrideState = {
      version,
      slots,
      ...(isChanged && { capacity }),
      paused,
      ...(pausedUntilMs !== undefined && { pausedUntilMs }),
      ...(reason && { reason }),
    };
    this.lastVersion = version;
    this.state = isChanged || paused ? state : undefined;
    return state;
  }

  /** Ends a pause whose time is over, as an operator would. */
  expire(nowMs: number): void {
    if (this.state && this.endsAtMs <= nowMs) this.change({ slots: this.state.slots, paused: false }, nowMs);
  }

  /** Whether as many slots are in use as this waiter wants permits in all. A pause has an end, so it does not count. */
  hasEnoughFor({ permits = 1 }: Ticket): boolean {
    return permits <= (this.state?.capacity ?? Number.POSITIVE_INFINITY);
  }

  /** Every slot that it speaks of. */
  slots(): readonly string[] {
    if (!this.state) return [];
    const { slots, capacity = 0 } = this.state;
    return slotNames(typeof slots === 'number' ? Math.max(slots, capacity) : slots);
  }

  isInUse(slot: string): boolean {
    if (!this.state) return true;
    if (this.paused) return false;
    const { slots, capacity } = this.state;
    return wantsSlot(typeof slots === 'number' ? (capacity ?? slots) : slots.slice(0, capacity), slot);
  }

  /** Whether acquirers try it without being told to. */
  isDeployed(slot: string): boolean {
    return this.state !== undefined && wantsSlot(this.state.slots, slot);
  }

  /** Whether this waiter can be told to try the slot: one that counts slots takes those that an operator has added, too. */
  wants(ticket: Ticket, slot: string): boolean {
    return wantsSlot(ticket.slots, slot) || (typeof ticket.slots === 'number' && this.isAdded(slot));
  }

  /** Whether an operator has added it to those that are deployed. */
  isAdded(slot: string): boolean {
    const { slots, capacity = 0 } = this.state ?? {};
    return typeof slots === 'number' && wantsSlot(capacity, slot) && !wantsSlot(slots, slot);
  }

  /** 0 when nothing is paused. */
  private get pausedToMs(): number {
    return this.paused ? this.endsAtMs : 0;
  }

  private get paused(): boolean {
    return this.state?.paused ?? false;
  }
}
