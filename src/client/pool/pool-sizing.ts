/**
 * How long callers of a pool that holds permits wait, before the pool asks for one more. If the running calls are shorter than this, their
 * permits are free in time, and the pool needs no more.
 */
const GROW_AFTER_MS = 10;

/** The most permits that one try is to bring. */
const TRIES_AT_ONCE = 32;

/** The most places in the queue of a pool without a permit (G3). A pool with a permit has at most one: pools without permits come first. */
const PLACES_WITHOUT_PERMIT = 4;

/** How long the pool asks for nothing after the server has refused. */
const REFUSED_MS = 1_000;

/** One of the pool's places in the queue of its resource: a ticket that waits for one permit. */
export interface Place {
  /** How many permits the pool would hold with this one, from 1. The ticket states it: other pools decide by it whether to give one back. */
  readonly nth: number;
  /** The priority of the caller for whom the pool took the place. The smaller the number, the more urgent. */
  readonly priorityKey: number;
  /** The pool has told the place to leave. It counts (G1) until {@link PoolSizing.left}, since it may still bring a permit. */
  isLeaving: boolean;
}

export type SizingCommand =
  /**
   * Claim slots that the pool does not hold: a few more than `count`, or every slot (`everySlot`), until the pool has `count` more permits.
   * Each permit is reported with `acquired`, the end with `tried`.
   */
  | { do: 'try'; count: number; everySlot: boolean }
  /** Enqueue a ticket for this place. Reported with `acquired` or `left`. */
  | { do: 'line-up'; place: Place }
  /** Withdraw the place's ticket. Reported with `left`, or with `acquired` if a permit was faster. */
  | { do: 'leave'; place: Place }
  /** Ask the queue whether others wait for permits of the resource. Reported with `looked`. */
  | { do: 'look' };

/** What the pool is doing, as `PoolState` knows it. Only callers with a timeout count: those of `tryAcquire` see {@link PoolSizing.tryOnce}. */
export interface PoolStatus {
  nowMs: number;
  /** How many callers wait. */
  waiting: number;
  /** The priority of the first of them. */
  priorityKey: number;
  /** Permits that the pool holds, including idle and `undecided` permits, but not those in `releasing`. */
  holding: number;
  /** Permits that are being given back. They still count against the room (G1). */
  releasing: number;
  /** Of `holding`: those that the pool is to give back to others at the end of their calls. */
  owed: number;
  /**
   * Of `holding`: those whose call has ended, and that wait until a look shows whether they go back. They count as about to serve a waiting
   * caller, so the pool does not ask for others in their place.
   */
  undecided: number;
  /** A look is under way. */
  isLooking: boolean;
}

/**
 * What a pool asks for when a caller lacks a permit: it tries free slots, queues behind others, or first looks whether others wait. A look
 * is also made for another reason, to learn whether permits must go back (`FairShare`); its result changes the mode too. In the
 * drawing, "the pool waits" means that it has a place in the queue.
 *
 *     try --a try was in vain | a look: others wait--> line-up --a place was served--> look
 *      ^                                                |   ^                            |
 *      |--a look: no one waits, nor does the pool-------'   '--a look: others wait, or---|
 *      |                                                       no worker answers         |
 *      '--a look: no one waits-----------------------------------------------------------'
 *     line-up, look --nothing is held, asked for or wanted--> try
 */
type Mode = 'try' | 'line-up' | 'look';

/**
 * How many permits a pool asks for, and how: see {@link Mode}. Pure: it decides, and `PoolState` passes events in and commands on. It does not
 * know the permits themselves, and gives none back; it only asks for more, and stops asking.
 *
 * A pool asks with a try, or with places in the queue. A try asks for several permits at once, each place for one.
 *
 * Invariants, which its test checks after each event:
 *
 * - **G1** The pool asks for no more permits than it has {@link room} for, so that `PoolState`'s invariant P2 holds.
 * - **G2** One try is under way at a time.
 * - **G3** A pool without a permit takes a new place in the queue only while it has fewer than four places, a pool with a permit only while it
 *   has none: pools without permits come first. A permit that the pool owes to others does not count here. A caller that is more urgent than all
 *   places gets one more place.
 * - **G4** Places that are not leaving state different numbers of permits.
 */
export class PoolSizing {
  private mode: Mode = 'try';
  /** All places in the queue, including those that are leaving. */
  private readonly places = new Set<Place>();
  /** The try that is under way, and how many permits it may still bring. */
  private attempt: { left: number } | undefined;
  /** Since when more callers have waited than permits are asked for. `undefined`: they do not, or there is no room to ask. */
  private lackingSinceMs: number | undefined;
  /** Since when more permits have been asked for than callers wait. `undefined`: none is too many. */
  private surplusSinceMs: number | undefined;
  /** When the pool may ask again, if it could not in the last {@link next}. Infinity otherwise. */
  private askDueMs = Number.POSITIVE_INFINITY;
  /** The last error of the server, and until when the pool asks for nothing because of it. */
  private refusal: { error: unknown; untilMs: number } | undefined;

  /** The most permits that the pool may hold at once: `max`, or more as of the last look (see `mayGrowTo`). */
  private presentMax: number;

  constructor(
    private readonly max: number,
    /** How long the pool keeps a place for which no caller waits any more. */
    private readonly idleForMs: number,
    /** The most permits that the pool may hold if an operator has set a capacity above `max`. */
    private readonly mayGrowTo = max,
  ) {
    this.presentMax = max;
  }

  get isTrying(): boolean {
    return this.attempt !== undefined;
  }

  /** Whether the try that is under way has brought as many permits as it was to bring. Also true if no try is under way. */
  get hasTryBroughtAll(): boolean {
    return this.triesLeft === 0;
  }

  /** How many permits the pool has asked for and not got yet: those that the try may still bring, and one for each place. */
  get asked(): number {
    return this.triesLeft + this.places.size;
  }

  private get triesLeft(): number {
    return this.attempt?.left ?? 0;
  }

  /** How many more it may ask for (G1). */
  room({ holding, releasing }: Pick<PoolStatus, 'holding' | 'releasing'>): number {
    return this.presentMax - holding - releasing - this.asked;
  }

  /** The pool has got a permit. @param place the place that brought it; without one, the try did */
  acquired(place?: Place): void {
    if (place) {
      this.places.delete(place);
      if (this.mode === 'line-up') this.mode = 'look'; // perhaps no other acquirer waits now
    } else if (this.attempt && this.attempt.left > 0) {
      this.attempt.left--;
    }
    this.refusal = undefined;
  }

  /** The try is over. If it has brought fewer permits than asked for, others hold the slots. @param error the server's refusal */
  tried(nowMs: number, error?: unknown): void {
    if (error !== undefined) this.refused(error, nowMs);
    else if (this.triesLeft > 0 && this.mode === 'try') this.mode = 'line-up';
    this.attempt = undefined;
  }

  /** A place in the queue has ended without a permit. @param error the server's refusal, unless the pool has left */
  left(place: Place, nowMs: number, error?: unknown): void {
    this.places.delete(place);
    if (error !== undefined && !place.isLeaving) this.refused(error, nowMs);
  }

  /**
   * A look is over.
   * @param isWanted whether others wait, or the pool holds a slot that an operator has taken out of use; `undefined` if no worker has answered
   * @param capacity how many slots an operator has set to be in use; omitted if none has
   */
  looked(isWanted: boolean | undefined, capacity = this.max): void {
    if (isWanted !== undefined) this.presentMax = Math.max(this.max, Math.min(capacity, this.mayGrowTo));
    if (isWanted === false && (this.mode === 'look' || this.places.size === 0)) this.mode = 'try';
    else if (isWanted || this.mode === 'look') this.mode = 'line-up';
  }

  /**
   * The server's error, if no waiting caller can be served because of it: the pool holds nothing and asks for nothing. `PoolState` then fails
   * all waiting callers with this error. Each error is returned once at most, and not after `REFUSED_MS`.
   */
  takeRefusal({ nowMs, holding, releasing }: PoolStatus): { error: unknown } | undefined {
    const { refusal } = this;
    if (!refusal || holding + releasing + this.asked > 0 || this.isTrying) return undefined;
    this.refusal = undefined;
    return nowMs < refusal.untilMs ? refusal : undefined;
  }

  /**
   * Begins a try of every slot, for callers of `tryAcquire`. Does not check the invariants: no try may be under way (G2), and `count` is at
   * most the {@link room} (G1).
   */
  tryOnce(count: number): SizingCommand {
    return this.try(count, true);
  }

  /** For a pool that closes. */
  leaveAll(): SizingCommand[] {
    return this.leave([...this.places]);
  }

  /** What to do now. Each command is returned once. */
  next(status: PoolStatus): SizingCommand[] {
    return [...this.shrink(status), ...(status.waiting > 0 ? this.grow(status) : this.rest(status))];
  }

  /** When to call {@link next} if no event comes first. Infinity if only an event can give it something to do. */
  dueMs(): number {
    const surplusDueMs = (this.surplusSinceMs ?? Number.POSITIVE_INFINITY) + this.idleForMs;
    return Math.min(this.askDueMs, surplusDueMs);
  }

  /** No caller waits. */
  private rest({ holding, releasing }: PoolStatus): SizingCommand[] {
    this.askDueMs = Number.POSITIVE_INFINITY;
    this.lackingSinceMs = undefined;
    // A look from the last time of use says nothing of now.
    if (holding + releasing + this.asked === 0 && !this.isTrying) this.mode = 'try';
    return [];
  }

  /** Callers wait. What they lack is their number less the permits that are on their way to them, but no more than there is room for. */
  private grow(status: PoolStatus): SizingCommand[] {
    const { nowMs, waiting, holding, owed, undecided } = status;
    this.askDueMs = Number.POSITIVE_INFINITY;
    const commands = this.hasten(status);
    const lacking = Math.min(waiting - undecided - this.asked, this.room(status));
    const maxPlaces = holding > owed ? 1 : PLACES_WITHOUT_PERMIT; // G3
    const free = Math.max(0, Math.min(lacking, maxPlaces - this.places.size)); // places that the pool may take now
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

  /** Asks for what is lacking, as the mode says. @param free how many places in the queue the pool may take */
  private askFor(lacking: number, free: number, status: PoolStatus): SizingCommand[] {
    if (this.mode === 'try') return [this.try(lacking, false)];
    if (this.mode === 'line-up') return Array.from({ length: free }, () => this.newPlace(status));
    return status.isLooking ? [] : [{ do: 'look' }];
  }

  /** Begins a try. @param everySlot of all slots of the resource, or only of a few more than `count` */
  private try(count: number, everySlot: boolean): SizingCommand {
    this.attempt = { left: Math.min(count, TRIES_AT_ONCE) };
    return { do: 'try', count: this.attempt.left, everySlot };
  }

  /** A place for the first caller that waits. It states the smallest number from {@link nextNth} that no other place states. */
  private newPlace(status: PoolStatus): SizingCommand {
    const { priorityKey } = status;
    const taken = new Set([...this.staying()].map(({ nth }) => nth));
    let nth = this.nextNth(status);
    while (taken.has(nth)) nth++; // G4
    const place: Place = { nth, priorityKey, isLeaving: false };
    this.places.add(place);
    return { do: 'line-up', place };
  }

  /**
   * If the first caller is more urgent than every place in the queue, it gets a place. If there is no room, a place leaves first, and the caller
   * gets a place in a later {@link next}. Meanwhile no other place leaves for this caller.
   */
  private hasten(status: PoolStatus): SizingCommand[] {
    const [...places] = this.places;
    const isUrgent = places.every(({ priorityKey, isLeaving }) => priorityKey > status.priorityKey && !isLeaving);
    if (places.length === 0 || !isUrgent) return [];
    return this.room(status) > 0 ? [this.newPlace(status)] : this.leave(lastOf(places, 1));
  }

  /** How many permits the pool will hold with the next one, if it keeps all but those that it owes, and the try brings all that it may. */
  private nextNth({ holding, owed }: PoolStatus): number {
    return Math.max(0, holding - owed) + this.triesLeft + 1;
  }

  /**
   * Leaves places whose number of permits (`nth`) is out of date.
   *
   * - Too many: every place states more than the next number, since permits have gone meanwhile. Other pools see a pool that asks for more than
   *   its share, and give it nothing. If the pool may take a place more (`free`), the new place states the right number. If not, the place that
   *   states most leaves, and the next {@link next} takes a new one: one such exchange at a time.
   * - Too few: a place states a number of permits that the pool already holds, since another place or a try was served first. It would take
   *   permits from pools that have no more than this one. `nextNth` without the try counts only what the pool holds.
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

  /** Leaves places for which no caller waits, after as long as the pool keeps an idle permit. Permits that the try may bring count too. */
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

  /** The places that are not leaving. */
  private *staying(): Generator<Place> {
    for (const place of this.places) if (!place.isLeaving) yield place;
  }

  /** Tells these places to leave, but for those that were told already. */
  private leave(places: Place[]): SizingCommand[] {
    const leaving = places.filter(({ isLeaving }) => !isLeaving);
    for (const place of leaving) place.isLeaving = true;
    return leaving.map((place) => ({ do: 'leave', place }));
  }

  /** The server has refused: the pool asks for nothing for a while. */
  private refused(error: unknown, nowMs: number): void {
    this.refusal = { error, untilMs: nowMs + REFUSED_MS };
  }
}

/** The `count` places that state the most permits: they would be served last. */
function lastOf(places: readonly Place[], count: number): Place[] {
  return [...places].sort((a, b) => b.nth - a.nth).slice(0, count);
}
