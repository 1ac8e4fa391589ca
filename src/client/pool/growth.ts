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

export type GrowthCommand =
  /** Try slots that the pool does not hold: some, or every one, until `count` permits are had. */
  | { do: 'try'; count: number; everySlot: boolean }
  | { do: 'line-up'; place: Place }
  | { do: 'leave'; place: Place }
  | { do: 'look' };

/** How things stand in the pool. */
export interface Standing {
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
 * What a pool asks for. Pure. It tries free slots while nobody else wants them. Once a try was in vain, or others wait, it
 * lines up behind them.
 */
export class Growth {
  private readonly places = new Set<Place>();
  /** Permits that the try which is under way may still bring. */
  private triesLeft = 0;
  private trying = false;
  /** Others wait, or hold all the other slots: a try would be in vain, or unfair. */
  private isCrowded = false;
  /** A permit has come through the line: perhaps nobody waits there now. */
  private hasBeenServed = false;
  private lackingSinceMs: number | undefined;
  private surplusSinceMs: number | undefined;
  private growthDueMs = Number.POSITIVE_INFINITY;
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
    return this.trying;
  }

  /** The try that is under way has brought all that it was to bring. */
  get isEachHad(): boolean {
    return this.triesLeft === 0;
  }

  /** Permits that are asked for. */
  get asked(): number {
    return this.triesLeft + this.places.size;
  }

  /** How many more it may ask for (P2). */
  room({ holding, releasing }: Pick<Standing, 'holding' | 'releasing'>): number {
    return this.most - holding - releasing - this.asked;
  }

  acquired(place?: Place): void {
    if (place) {
      this.places.delete(place);
      this.hasBeenServed = true;
    } else if (this.triesLeft > 0) {
      this.triesLeft--;
    }
    this.refusal = undefined;
  }

  /** The try is over. Others hold the slots that it has not brought by now. */
  tried(nowMs: number, error?: unknown): void {
    if (error !== undefined) this.refused(error, nowMs);
    else if (this.triesLeft > 0) this.isCrowded = true;
    this.triesLeft = 0;
    this.trying = false;
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
    if (isWanted) this.isCrowded = true;
    else if (isWanted === false && (this.hasBeenServed || this.places.size === 0)) this.isCrowded = false;
    this.hasBeenServed = false;
  }

  /** Where nothing is held or asked for after a refusal, nobody will be served: why. Told once. */
  takeRefusal({ nowMs, holding, releasing }: Standing): { error: unknown } | undefined {
    const { refusal } = this;
    if (!refusal || holding + releasing + this.asked > 0 || this.trying) return undefined;
    this.refusal = undefined;
    return nowMs < refusal.untilMs ? refusal : undefined;
  }

  tryOnce(count: number): GrowthCommand {
    return this.try(count, true);
  }

  leaveAll(): GrowthCommand[] {
    return this.leave([...this.places]);
  }

  next(standing: Standing): GrowthCommand[] {
    return [...this.shrink(standing), ...(standing.waiting > 0 ? this.grow(standing) : this.rest(standing))];
  }

  /** When {@link next} has something to do although nothing happens. */
  dueMs(): number {
    const surplusDueMs = (this.surplusSinceMs ?? Number.POSITIVE_INFINITY) + this.idleForMs;
    return Math.min(this.growthDueMs, surplusDueMs);
  }

  private rest({ holding, releasing }: Standing): GrowthCommand[] {
    this.growthDueMs = Number.POSITIVE_INFINITY;
    this.lackingSinceMs = undefined;
    // A look from the last time of use says nothing of now.
    if (holding + releasing + this.asked === 0 && !this.trying) this.isCrowded = false;
    return [];
  }

  private grow(standing: Standing): GrowthCommand[] {
    const { nowMs, waiting, holding, owed, asking, isLooking } = standing;
    this.growthDueMs = Number.POSITIVE_INFINITY;
    const commands = this.hasten(standing);
    const lacking = Math.min(waiting - asking - this.asked, this.room(standing));
    const most = holding > owed ? 1 : PLACES_WITHOUT_PERMIT;
    const free = Math.max(0, Math.min(lacking, most - this.places.size));
    commands.push(...this.correct(standing, free));
    if (lacking <= 0) {
      this.lackingSinceMs = undefined;
      return commands;
    }
    this.lackingSinceMs ??= nowMs;
    const patientUntilMs = holding > 0 ? this.lackingSinceMs + GROW_AFTER_MS : nowMs;
    const fromMs = Math.max(patientUntilMs, this.refusal?.untilMs ?? 0);
    if (nowMs < fromMs) this.growthDueMs = fromMs;
    else if (this.trying) return commands;
    else if (!this.isCrowded) commands.push(this.try(lacking, false));
    else if (!this.hasBeenServed) commands.push(...Array.from({ length: free }, () => this.newPlace(standing)));
    // Perhaps the line is empty now, and slots are free.
    else if (!isLooking) commands.push({ do: 'look' });
    return commands;
  }

  private try(count: number, everySlot: boolean): GrowthCommand {
    this.trying = true;
    this.triesLeft = Math.min(count, TRIES_AT_ONCE);
    return { do: 'try', count: this.triesLeft, everySlot };
  }

  private newPlace(standing: Standing): GrowthCommand {
    const { priorityKey } = standing;
    const taken = new Set([...this.staying()].map(({ nth }) => nth));
    let nth = this.nextNth(standing);
    while (taken.has(nth)) nth++;
    const place: Place = { nth, priorityKey, isLeaving: false };
    this.places.add(place);
    return { do: 'line-up', place };
  }

  /** A caller that is more urgent than any place in line gets one of its own, if need be in exchange. */
  private hasten(standing: Standing): GrowthCommand[] {
    const [...places] = this.places;
    const isUrgent = places.every(({ priorityKey, isLeaving }) => priorityKey > standing.priorityKey && !isLeaving);
    if (places.length === 0 || !isUrgent) return [];
    return this.room(standing) > 0 ? [this.newPlace(standing)] : this.leave(lastOf(places, 1));
  }

  private nextNth({ holding, owed }: Standing): number {
    return Math.max(0, holding - owed) + this.triesLeft + 1;
  }

  /**
   * Its share has changed since it lined up. With fewer permits it would ask for more than its share, and get nothing: where it may
   * have no place more, it exchanges one. With more, because a later place was served first, it would take from pools that have no more than it has.
   */
  private correct(standing: Standing, free: number): GrowthCommand[] {
    const staying = [...this.staying()];
    const nextNth = this.nextNth(standing);
    const isTooMuch = staying.length > 0 && staying.every(({ nth }) => nth > nextNth);
    const isExchanging = staying.length < this.places.size;
    return this.leave(
      isTooMuch && free === 0 && !isExchanging
        ? lastOf(staying, 1)
        : staying.filter(({ nth }) => nth < nextNth - this.triesLeft),
    );
  }

  /** Leaves places that nobody here waits for, after as long as the pool keeps an idle permit. */
  private shrink({ nowMs, waiting }: Standing): GrowthCommand[] {
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

  private leave(places: Place[]): GrowthCommand[] {
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
