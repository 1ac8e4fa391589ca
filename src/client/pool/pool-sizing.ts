/** How long callers wait for a permit that is in use here before the pool asks for another one: shorter calls need none. */
const GROW_AFTER_MS = 10;

/** So many slots the pool tries at a time. */
const TRIES_AT_ONCE = 32;

/** So many places in line it keeps while it holds nothing. With a permit it keeps one: those with none come first. */
const PLACES_WITHOUT_PERMIT = 4;

/** How long the pool asks for nothing after the server has refused. */
const REFUSED_MS = 1_000;

/** A place in the line of the resource. */
export interface Place {
  /** How many permits the pool would hold with this one. */
  readonly nth: number;
  readonly priorityKey: number;
  isLeaving: boolean;
}

export type SizingCommand =
  /** Try slots that the pool does not hold: some, or every one, until `count` permits are had. */
  | { do: 'try'; count: number; everySlot: boolean }
  | { do: 'line-up'; place: Place }
  | { do: 'leave'; place: Place }
  | { do: 'look' };

/** How things stand in the pool. */
export interface PoolStatus {
  nowMs: number;
  /** How many callers wait, and the priority of the first. */
  waiting: number;
  priorityKey: number;
  /** Permits without those that are being given back. */
  holding: number;
  releasing: number;
  /** Permits that are to go back soon. */
  owed: number;
  /** Permits that will be free in a moment. */
  asking: number;
  isLooking: boolean;
}

/**
 * What a pool asks for when a caller lacks a permit: it tries free slots, lines up behind others, or first looks whether others wait.
 *
 *     try --a try was in vain | a look: others wait--> line-up --a place was served--> look
 *      ^                                                |   ^                            |
 *      |--a look: nobody waits, nor does the pool-------'   '--a look: others wait, or---|
 *      |                                                       nobody answers            |
 *      '--a look: nobody waits-----------------------------------------------------------'
 *     line-up, look --nothing is held, asked for or wanted--> try
 */
type Mode = 'try' | 'line-up' | 'look';

/**
 * How many permits a pool asks for, and how: see {@link Mode}. Pure.
 *
 * Invariants, which its test checks after each event:
 *
 * - **G1** It asks for no more permits than it has {@link room} for (so P2 holds).
 * - **G2** One try is under way at a time.
 * - **G3** A pool without a permit takes a new place in line only while it has fewer than four, a pool with a permit only while it has none:
 *   pools with none come first. A caller that is more urgent than all places has one more.
 * - **G4** Places that stay state different numbers of permits.
 */
export class PoolSizing {
  private mode: Mode = 'try';
  private readonly places = new Set<Place>();
  /** The try that is under way, and how many permits it may still bring. */
  private attempt: { left: number } | undefined;
  private lackingSinceMs: number | undefined;
  private surplusSinceMs: number | undefined;
  private askDueMs = Number.POSITIVE_INFINITY;
  private refusal: { error: unknown; untilMs: number } | undefined;

  /** The most permits at once, as of the last look. */
  private most: number;

  constructor(
    private readonly max: number,
    /** How long a place is kept that nobody waits for. */
    private readonly idleForMs: number,
    /** Where an operator has added slots to the `max`. */
    private readonly mayGrowTo = max,
  ) {
    this.most = max;
  }

  get isTrying(): boolean {
    return this.attempt !== undefined;
  }

  /** The try that is under way has brought all that it was to bring. */
  get isEachHad(): boolean {
    return this.triesLeft === 0;
  }

  /** Permits that are asked for. */
  get asked(): number {
    return this.triesLeft + this.places.size;
  }

  private get triesLeft(): number {
    return this.attempt?.left ?? 0;
  }

  /** How many more it may ask for (G1). */
  room({ holding, releasing }: Pick<PoolStatus, 'holding' | 'releasing'>): number {
    return this.most - holding - releasing - this.asked;
  }

  acquired(place?: Place): void {
    if (place) {
      this.places.delete(place);
      if (this.mode === 'line-up') this.mode = 'look'; // perhaps nobody waits there now
    } else if (this.attempt && this.attempt.left > 0) {
      this.attempt.left--;
    }
    this.refusal = undefined;
  }

  /** The try is over. Others hold the slots that it has not brought by now. */
  tried(nowMs: number, error?: unknown): void {
    if (error !== undefined) this.refused(error, nowMs);
    else if (this.triesLeft > 0 && this.mode === 'try') this.mode = 'line-up';
    this.attempt = undefined;
  }

  /** A place in line has ended without a permit. @param error what the server refused, unless the pool has left */
  left(place: Place, nowMs: number, error?: unknown): void {
    this.places.delete(place);
    if (error !== undefined && !place.isLeaving) this.refused(error, nowMs);
  }

  /**
   * The pool has looked.
   * @param isWanted whether others wait, or an operator wants slots back; `undefined`: nobody knows
   * @param capacity how many slots an operator has set
   */
  looked(isWanted: boolean | undefined, capacity = this.max): void {
    if (isWanted !== undefined) this.most = Math.max(this.max, Math.min(capacity, this.mayGrowTo));
    if (isWanted === false && (this.mode === 'look' || this.places.size === 0)) this.mode = 'try';
    else if (isWanted || this.mode === 'look') this.mode = 'line-up';
  }

  /** Where nothing is held or asked for after a refusal, nobody will be served: why. Told once. */
  takeRefusal({ nowMs, holding, releasing }: PoolStatus): { error: unknown } | undefined {
    const { refusal } = this;
    if (!refusal || holding + releasing + this.asked > 0 || this.isTrying) return undefined;
    this.refusal = undefined;
    return nowMs < refusal.untilMs ? refusal : undefined;
  }

  tryOnce(count: number): SizingCommand {
    return this.try(count, true);
  }

  leaveAll(): SizingCommand[] {
    return this.leave([...this.places]);
  }

  next(status: PoolStatus): SizingCommand[] {
    return [...this.shrink(status), ...(status.waiting > 0 ? this.grow(status) : this.rest(status))];
  }

  /** When {@link next} has something to do although nothing happens. */
  dueMs(): number {
    const surplusDueMs = (this.surplusSinceMs ?? Number.POSITIVE_INFINITY) + this.idleForMs;
    return Math.min(this.askDueMs, surplusDueMs);
  }

  private rest({ holding, releasing }: PoolStatus): SizingCommand[] {
    this.askDueMs = Number.POSITIVE_INFINITY;
    this.lackingSinceMs = undefined;
    // A look from the last time of use says nothing of now.
    if (holding + releasing + this.asked === 0 && !this.isTrying) this.mode = 'try';
    return [];
  }

  private grow(status: PoolStatus): SizingCommand[] {
    const { nowMs, waiting, holding, owed, asking } = status;
    this.askDueMs = Number.POSITIVE_INFINITY;
    const commands = this.hasten(status);
    const lacking = Math.min(waiting - asking - this.asked, this.room(status));
    const most = holding > owed ? 1 : PLACES_WITHOUT_PERMIT; // G3
    const free = Math.max(0, Math.min(lacking, most - this.places.size));
    commands.push(...this.correct(status, free));
    if (lacking <= 0) {
      this.lackingSinceMs = undefined;
      return commands;
    }
    this.lackingSinceMs ??= nowMs;
    const patientUntilMs = holding > 0 ? this.lackingSinceMs + GROW_AFTER_MS : nowMs;
    const fromMs = Math.max(patientUntilMs, this.refusal?.untilMs ?? 0);
    if (nowMs < fromMs) this.askDueMs = fromMs;
    else if (!this.isTrying) commands.push(...this.askFor(lacking, free, status)); // G2
    return commands;
  }

  private askFor(lacking: number, free: number, status: PoolStatus): SizingCommand[] {
    if (this.mode === 'try') return [this.try(lacking, false)];
    if (this.mode === 'line-up') return Array.from({ length: free }, () => this.newPlace(status));
    return status.isLooking ? [] : [{ do: 'look' }];
  }

  private try(count: number, everySlot: boolean): SizingCommand {
    this.attempt = { left: Math.min(count, TRIES_AT_ONCE) };
    return { do: 'try', count: this.attempt.left, everySlot };
  }

  private newPlace(status: PoolStatus): SizingCommand {
    const { priorityKey } = status;
    const taken = new Set([...this.staying()].map(({ nth }) => nth));
    let nth = this.nextNth(status);
    while (taken.has(nth)) nth++; // G4
    const place: Place = { nth, priorityKey, isLeaving: false };
    this.places.add(place);
    return { do: 'line-up', place };
  }

  /** A caller that is more urgent than any place in line gets one of its own, if need be in exchange. */
  private hasten(status: PoolStatus): SizingCommand[] {
    const [...places] = this.places;
    const isUrgent = places.every(({ priorityKey, isLeaving }) => priorityKey > status.priorityKey && !isLeaving);
    if (places.length === 0 || !isUrgent) return [];
    return this.room(status) > 0 ? [this.newPlace(status)] : this.leave(lastOf(places, 1));
  }

  private nextNth({ holding, owed }: PoolStatus): number {
    return Math.max(0, holding - owed) + this.triesLeft + 1;
  }

  /**
   * Leaves places whose number of permits is out of date. A place that states too many asks for more than the pool's share, and gets
   * nothing: where the pool may have no place more, it exchanges one. A place that states too few, because a later place was served first,
   * would take from pools that have no more than this one has.
   */
  private correct(status: PoolStatus, free: number): SizingCommand[] {
    const staying = [...this.staying()];
    const nextNth = this.nextNth(status);
    const isTooMuch = staying.length > 0 && staying.every(({ nth }) => nth > nextNth);
    const isExchanging = staying.length < this.places.size;
    return this.leave(
      isTooMuch && free === 0 && !isExchanging
        ? lastOf(staying, 1)
        : staying.filter(({ nth }) => nth < nextNth - this.triesLeft),
    );
  }

  /** Leaves places that nobody here waits for, after as long as the pool keeps an idle permit. */
  private shrink({ nowMs, waiting }: PoolStatus): SizingCommand[] {
    const staying = [...this.staying()];
    const surplus = Math.min(staying.length, staying.length + this.triesLeft - waiting);
    if (surplus <= 0) {
      this.surplusSinceMs = undefined;
      return [];
    }
    this.surplusSinceMs ??= nowMs;
    if (nowMs < this.surplusSinceMs + this.idleForMs) return [];
    this.surplusSinceMs = undefined;
    return this.leave(lastOf(staying, surplus));
  }

  private *staying(): Generator<Place> {
    for (const place of this.places) if (!place.isLeaving) yield place;
  }

  private leave(places: Place[]): SizingCommand[] {
    const leaving = places.filter(({ isLeaving }) => !isLeaving);
    for (const place of leaving) place.isLeaving = true;
    return leaving.map((place) => ({ do: 'leave', place }));
  }

  private refused(error: unknown, nowMs: number): void {
    this.refusal = { error, untilMs: nowMs + REFUSED_MS };
  }
}

function lastOf(places: readonly Place[], count: number): Place[] {
  return [...places].sort((a, b) => b.nth - a.nth).slice(0, count);
}
