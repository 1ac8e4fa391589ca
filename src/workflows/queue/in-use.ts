import type { OverrideInput, OverrideState, Ticket } from '../../shared/protocol';
import { isSlotInUse, slotNames, wantsSlot } from '../../shared/slots';
import { versionInForce } from '../../shared/version-in-force';

/** What an operator has set, and so which slots are in use, and for whom. It knows nothing of what the slots are doing. */
export class InUse {
  private lastVersion: number;

  constructor(private state?: OverrideState) {
    this.lastVersion = state?.version ?? 0;
  }

  /** What an operator has set; `undefined` if nothing is set. */
  get override(): OverrideState | undefined {
    return this.state;
  }

  /** When a pause or a capacity ends automatically, whichever is first. Infinity if neither does. */
  get endsAtMs(): number {
    const { pausedUntilMs = Number.POSITIVE_INFINITY, capacityUntilMs = Number.POSITIVE_INFINITY } = this.state ?? {};
    return Math.min(pausedUntilMs, capacityUntilMs);
  }

  /**
   * An operator changes which slots are in use. If all deployed slots are in use again, nothing is set any more. A pause with an end never
   * shortens another pause: an operator's pause must not end because a holder was told to come back in a second. Of two capacities, the last
   * takes effect.
   *
   * @returns what is set now
   */
  set(input: OverrideInput, nowMs: number): OverrideState {
    const { slots, pauseUntilMs, reason } = input;
    const isOver = input.capacityUntilMs !== undefined && input.capacityUntilMs <= nowMs;
    if (isOver || (pauseUntilMs !== undefined && pauseUntilMs <= Math.max(this.pausedToMs, nowMs))) {
      return this.state ?? { version: this.lastVersion, slots, paused: false };
    }
    this.state = this.state && fitted(this.state, slots);
    const { capacity = this.state?.capacity } = input;
    const { paused = pauseUntilMs !== undefined || this.isPaused } = input;
    const pausedUntilMs = pauseUntilMs ?? (input.paused === undefined ? this.state?.pausedUntilMs : undefined);
    // At least the current time: a new queue does not know the last version, and must still issue a higher one.
    const version = Math.max(this.lastVersion + 1, nowMs);
    const isChanged = capacity !== undefined && capacity !== slotNames(slots).length;
    const end = this.endOfCapacity(input);
    const fileVersion = pauseUntilMs === undefined ? input.fileVersion : this.state?.fileVersion;
    const state: OverrideState = {
      version,
      slots,
      ...(isChanged && { capacity }),
      ...end,
      paused,
      ...(pausedUntilMs !== undefined && { pausedUntilMs }),
      ...(reason && { reason }),
      ...(fileVersion !== undefined && { fileVersion }),
    };
    // An older file might set it again.
    const isAfterFile = fileVersion !== undefined && versionInForce(this.state) !== undefined;
    const isAnySet = isChanged || paused || end.capacityUntilMs !== undefined || isAfterFile;
    this.lastVersion = version;
    this.state = isAnySet ? state : undefined;
    return state;
  }

  /** Ends a pause or a capacity whose time is over, as an operator would. */
  expire(nowMs: number): void {
    const isOver = (untilMs = Number.POSITIVE_INFINITY) => untilMs <= nowMs;
    if (this.state && isOver(this.state.capacityUntilMs)) {
      const { slots, before } = this.state;
      this.set({ slots, capacity: slotNames(slots).length, ...before }, nowMs);
    }
    if (this.state && isOver(this.state.pausedUntilMs)) {
      const { pausedUntilMs, ...state } = this.state;
      const { slots, fileVersion } = state;
      this.state = { ...state, paused: false };
      // `paused: false` would count as an order, and so change what comes back after a capacity with an end.
      this.set({ slots, fileVersion }, nowMs);
    }
  }

  /** Whether enough slots are in use for all permits that this waiter wants. A pause does not count, because it ends at some time. */
  hasEnoughFor({ permits = 1 }: Ticket): boolean {
    return permits <= (this.state?.capacity ?? Number.POSITIVE_INFINITY);
  }

  /** The names of all slots that are deployed or that an operator has added. */
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
  isEligible({ slots }: Pick<Ticket, 'slots'>, slot: string): boolean {
    return this.has(slot) && (wantsSlot(slots, slot) || (typeof slots === 'number' && this.hasAdded(slot)));
  }

  /** When the capacity is to end, and what comes back then: what was set before the first of the capacities that have an end. */
  private endOfCapacity(input: OverrideInput): Pick<OverrideState, 'capacityUntilMs' | 'before'> {
    const { capacityUntilMs, before, ...now } = this.state ?? {};
    const hasEnd = capacityUntilMs !== undefined;
    if (input.capacity === undefined) {
      if (!hasEnd) return {};
      const stays = input.paused === undefined ? before : afterOrder(before, input);
      return { capacityUntilMs, ...(stays && { before: stays }) };
    }
    if (input.capacityUntilMs === undefined) return {};
    const stays = hasEnd ? before : lasting(now);
    return { capacityUntilMs: input.capacityUntilMs, ...(stays && { before: stays }) };
  }

  /** Whether acquirers try the slot without being told to. */
  isDeployed(slot: string): boolean {
    return this.state !== undefined && wantsSlot(this.state.slots, slot);
  }

  /** When the pause ends; 0 if there is none. */
  private get pausedToMs(): number {
    return this.isPaused ? (this.state?.pausedUntilMs ?? Number.POSITIVE_INFINITY) : 0;
  }

  private get isPaused(): boolean {
    return this.state?.paused ?? false;
  }
}

type Lasting = NonNullable<OverrideState['before']>;

/** What comes back after a capacity with an end; `undefined` if nothing does. */
function lasting({ capacity, reason, fileVersion }: Lasting): Lasting | undefined {
  const setting = {
    ...(capacity !== undefined && { capacity }),
    ...(reason && { reason }),
    ...(fileVersion !== undefined && { fileVersion }),
  };
  return Object.keys(setting).length > 0 ? setting : undefined;
}

/** What comes back once an operator or a limits file has paused or resumed meanwhile: what the order would leave without that capacity. */
function afterOrder(
  { capacity, fileVersion: earlier }: Lasting = {},
  { paused, reason, fileVersion }: OverrideInput,
): Lasting | undefined {
  const isAfterFile = fileVersion !== undefined && earlier !== undefined;
  const isAnySet = paused || capacity !== undefined || isAfterFile;
  return isAnySet ? lasting({ capacity, reason, fileVersion }) : undefined;
}

/** What is set, for these slots: if they have names, no more can be in use than there are names. */
function fitted(state: OverrideState, slots: OverrideState['slots']): OverrideState {
  if (typeof slots === 'number') return state;
  const fit = <Setting extends { capacity?: number }>(it: Setting): Setting =>
    it.capacity === undefined ? it : { ...it, capacity: Math.min(it.capacity, slots.length) };
  return { ...fit(state), ...(state.before && { before: fit(state.before) }) };
}
