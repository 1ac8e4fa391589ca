import type { OverrideInput, OverrideState, SlotState, Ticket } from '../../shared/protocol';
import { isSlotInUse, slotNames, wantsSlot } from '../../shared/slots';
import { probeAfterMs, type QueueCommand } from './queue-command';

/** How often the queue renews its claim on a slot that is out of use, and so finds out that somebody has terminated the claim. */
export const DRAIN_RENEWAL_MS = 20 * 60_000;

/** Whether somebody in line would take the slot. */
interface Wanted {
  has(slot: string): boolean;
}

/**
 * What an operator has set, and so which slots are in use. The queue claims a slot that is out of use (too many, or paused) instead
 * of offering it, and watches that claim like any other:
 *
 *     free --claim sent--> draining --started--> drained --in use again, or nobody names it: release sent--> held
 *                              '--taken--> unknown  '--closing | gone--> free
 *
 * A slot that another queue had claimed before it was terminated answers the first probe, and is drained from then on.
 */
export class InUse {
  private lastVersion: number;

  /** @param slots the states of all slots; this part moves those of slots that are out of use */
  constructor(
    private readonly slots: Map<string, SlotState>,
    private state?: OverrideState,
  ) {
    this.lastVersion = state?.version ?? 0;
  }

  /** What an operator has set; `undefined` when nothing is. */
  get override(): OverrideState | undefined {
    return this.state;
  }

  /** When a pause or a capacity ends by itself: the first of both. Infinity when neither does. */
  get endsAtMs(): number {
    const { pausedUntilMs = Number.POSITIVE_INFINITY, capacityUntilMs = Number.POSITIVE_INFINITY } = this.state ?? {};
    return Math.min(pausedUntilMs, capacityUntilMs);
  }

  /** An operator changes which slots are in use, and the queue is to look at each slot that the operator names. @returns what is set now */
  set(input: OverrideInput, nowMs: number): OverrideState {
    // A thousand orders in a moment, each of a thousand names, leave the names of the last order.
    for (const [slot, { at }] of this.slots) if (at === 'unseen') this.slots.delete(slot);
    for (const slot of slotNames(input.slots)) if (!this.slots.has(slot)) this.slots.set(slot, { at: 'unseen' });
    return this.change(input, nowMs);
  }

  /** Ends a pause, or a capacity, whose time is over, as an operator would. */
  expire(nowMs: number): void {
    const isOver = (untilMs = Number.POSITIVE_INFINITY) => untilMs <= nowMs;
    if (this.state && isOver(this.state.capacityUntilMs)) {
      const { slots, before } = this.state;
      this.change({ slots, capacity: slotNames(slots).length, ...before }, nowMs);
    }
    if (this.state && isOver(this.state.pausedUntilMs)) {
      this.change({ slots: this.state.slots, paused: false }, nowMs);
    }
  }

  /** Whether as many slots are in use as this waiter wants permits in all. A pause has an end, so it does not count. */
  hasEnoughFor({ permits = 1 }: Ticket): boolean {
    return permits <= (this.state?.capacity ?? Number.POSITIVE_INFINITY);
  }

  /** Every slot that is deployed, or that an operator has added. */
  names(): readonly string[] {
    if (!this.state) return [];
    const { slots, capacity = 0 } = this.state;
    return slotNames(typeof slots === 'number' ? Math.max(slots, capacity) : slots);
  }

  has(slot: string): boolean {
    return !this.state || isSlotInUse(slot, this.state);
  }

  /** Whether an operator has added the slot to those that are deployed. */
  hasAdded(slot: string): boolean {
    const { slots, capacity = 0 } = this.state ?? {};
    return typeof slots === 'number' && wantsSlot(capacity, slot) && !wantsSlot(slots, slot);
  }

  /** Whether this waiter can be told to try the slot: a waiter that counts slots also takes slots that an operator has added. */
  allows({ slots }: Pick<Ticket, 'slots'>, slot: string): boolean {
    return this.has(slot) && (wantsSlot(slots, slot) || (typeof slots === 'number' && this.hasAdded(slot)));
  }

  /** Of the slots out of use, those that an acquirer may try. The queue just does not offer the others. */
  isToDrain(slot: string, wanted: Wanted): boolean {
    return !this.has(slot) && (this.isDeployed(slot) || wanted.has(slot));
  }

  /** No slot that is to be out of use is free, nor is a turn for it under way: somebody holds it, or the queue keeps it. */
  isInForce(wanted: Wanted): boolean {
    const isKept = (slot: string) => ['held', 'drained'].includes(this.slots.get(slot)?.at ?? 'unknown');
    return this.names().every((slot) => !this.isToDrain(slot, wanted) || isKept(slot));
  }

  /** Whether the queue keeps no slot out of use, and claims none. */
  get keepsNone(): boolean {
    for (const { at } of this.slots.values()) if (at === 'draining' || at === 'drained') return false;
    return true;
  }

  drain(slot: string): QueueCommand {
    this.slots.set(slot, { at: 'draining', closed: [] });
    return { do: 'drain', slot };
  }

  /** A claim's answer: the permit's run, or `undefined` when somebody else was faster. */
  claimed(slot: string, runId: string | undefined, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state?.at !== 'draining') return;
    if (runId === undefined) this.slots.delete(slot);
    else if (state.closed.includes(runId)) this.slots.set(slot, { at: 'free' });
    // A run that has ended meanwhile came before ours. Or it came after ours, which is gone: a renewal tells.
    else this.slots.set(slot, { at: 'drained', runId, renewAtMs: state.closed.length ? 0 : nowMs + DRAIN_RENEWAL_MS });
  }

  /** A permit keeps the slot out of use. The queue that claimed it was terminated: this one adopts the claim. */
  adopt(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state?.at !== 'held' || state.runId !== undefined) return;
    this.slots.set(slot, { at: 'drained', runId, renewAtMs: 0 });
  }

  /** What to do with a drained slot. The queue follows its release like anybody's. */
  keep(slot: string, state: SlotState & { at: 'drained' }, wanted: Wanted, nowMs: number): QueueCommand | undefined {
    const { runId, renewAtMs } = state;
    if (!this.isToDrain(slot, wanted)) {
      this.slots.set(slot, { at: 'held', sinceMs: nowMs, probeAtMs: nowMs + probeAfterMs(0, 1), runId });
      return { do: 'release', slot, runId };
    }
    if (renewAtMs > nowMs) return undefined;
    this.slots.set(slot, { ...state, renewAtMs: nowMs + DRAIN_RENEWAL_MS });
    return { do: 'renew', slot, runId };
  }

  /** The queue's own claim on a slot has ended without a word: somebody terminated it. */
  gone(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state && 'runId' in state && state.runId === runId) this.slots.set(slot, { at: 'free' });
  }

  /**
   * Takes the change, and says what is set now: back at what is deployed, nothing. A pause with an end shortens no other: an
   * operator's pause must not end because some holder was told to come back in a second. Of two capacities, the last counts.
   */
  private change(input: OverrideInput, nowMs: number): OverrideState {
    const { slots, capacity = this.state?.capacity, pauseUntilMs, reason } = input;
    const isOver = input.capacityUntilMs !== undefined && input.capacityUntilMs <= nowMs;
    if (isOver || (pauseUntilMs !== undefined && pauseUntilMs <= Math.max(this.pausedToMs, nowMs))) {
      return this.state ?? { version: this.lastVersion, slots, paused: false };
    }
    const { paused = pauseUntilMs !== undefined || this.isPaused } = input;
    const pausedUntilMs = pauseUntilMs ?? (input.paused === undefined ? this.state?.pausedUntilMs : undefined);
    // At least the current time: a new queue does not know the last version, and must still issue a higher one.
    const version = Math.max(this.lastVersion + 1, nowMs);
    const isChanged = capacity !== undefined && capacity !== slotNames(slots).length;
    const end = this.endOfCapacity(input);
    const state: OverrideState = {
      version,
      slots,
      ...(isChanged && { capacity }),
      ...end,
      paused,
      ...(pausedUntilMs !== undefined && { pausedUntilMs }),
      ...(reason && { reason }),
    };
    this.lastVersion = version;
    this.state = isChanged || paused || end.capacityUntilMs !== undefined ? state : undefined;
    return state;
  }

  /** When the capacity is to end, and what comes back then: what was set before the first of the capacities that have an end. */
  private endOfCapacity(input: OverrideInput): Pick<OverrideState, 'capacityUntilMs' | 'before'> {
    const { capacityUntilMs, before, capacity, reason } = this.state ?? {};
    const hasEnd = capacityUntilMs !== undefined;
    if (input.capacity === undefined) {
      if (!hasEnd) return {};
      // The reason of a pause without an end is that of what stays.
      const stays = input.paused && input.reason ? { ...before, reason: input.reason } : before;
      return { capacityUntilMs, ...(stays && { before: stays }) };
    }
    if (input.capacityUntilMs === undefined) return {};
    const lasting = hasEnd ? before : { ...(capacity !== undefined && { capacity }), ...(reason && { reason }) };
    const isAny = lasting !== undefined && Object.keys(lasting).length > 0;
    return { capacityUntilMs: input.capacityUntilMs, ...(isAny && { before: lasting }) };
  }

  /** Whether acquirers try the slot without being told to. */
  isDeployed(slot: string): boolean {
    return this.state !== undefined && wantsSlot(this.state.slots, slot);
  }

  /** 0 when nothing is paused. */
  private get pausedToMs(): number {
    return this.isPaused ? (this.state?.pausedUntilMs ?? Number.POSITIVE_INFINITY) : 0;
  }

  private get isPaused(): boolean {
    return this.state?.paused ?? false;
  }
}
