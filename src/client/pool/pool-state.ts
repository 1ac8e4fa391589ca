import { CallerLine, type LineEntry } from './caller-line';
import { FairShare, type Others } from './fair-share';
import { type Place, PoolSizing, type PoolStatus, type SizingCommand } from './pool-sizing';

/** How long a permit waits for the answer of a look before it serves on. */
export const ANSWER_MS = 250;

/** A permit that the pool holds. */
export interface Held<Permit> {
  readonly permit: Permit;
  readonly sinceMs: number;
  phase: 'idle' | 'busy' | 'undecided' | 'releasing';
  idleSinceMs: number;
  /** How many calls it has served. */
  uses: number;
  /** Whether an operator has taken its slot out of use. */
  isUnwanted: boolean;
}

export type PoolCommand<Call, Permit> =
  | { do: 'serve'; caller: Call; held: Held<Permit> }
  /** The caller's time is up. */
  | { do: 'time-out'; caller: Call }
  /** The caller does not wait, and no permit is free. */
  | { do: 'refuse'; caller: Call }
  | { do: 'fail'; caller: Call; error: unknown }
  | { do: 'release'; held: Held<Permit> }
  /** `caller`: the first caller for whom the pool asks. */
  | (SizingCommand & { caller?: Call });

export interface PoolRules {
  /** The pool's ID on its tickets. */
  readonly id: string;
  readonly max: number;
  /** The most permits that the pool holds if an operator has added slots. @default `max` */
  readonly mayGrowTo?: number;
  readonly reuseForMs: number;
  readonly idleForMs: number;
  /** A permit that was held this long is given back even if no other caller waits, since the server ends each run at some time. */
  readonly retireAfterMs: number;
}

/**
 * The waiting callers, the permits held, and so what the pool does next. Pure: each kind of event has a method, the clock comes in as
 * `nowMs`, and {@link next} returns what to do.
 *
 *     a permit:  idle --serve--> busy --call ends--> idle --idleFor--> releasing --> gone
 *                                  |--ripe, and others wait--> releasing
 *                                  '--ripe, and a look is under way--> undecided --its result--> idle | releasing
 *     from any of them: lost --> gone
 *
 * Invariants, which the model test checks after each event:
 *
 * - **P1** A permit serves one caller at a time, and none once it is releasing or gone.
 * - **P2** The permits held (including those being given back) and the permits asked for are never more than `max`, or than an operator has
 *   set, up to `mayGrowTo`. Permits that are too many after a later operator command go back at the end of their calls.
 * - **P3** No caller waits while a permit is idle; callers are served by priority, then arrival.
 * - **P4** There is one look at a time. There is none if no call runs under a permit or has just ended, and no caller waits.
 * - **P5** Every caller ends in exactly one of: served, timed out, refused, failed, or withdrawn.
 * - **P6** Once closed, the pool serves no caller, asks for nothing, and gives each permit back at the end of its call.
 */
export class PoolState<Call extends LineEntry, Permit extends { readonly slot: string }> {
  private readonly line = new CallerLine<Call>();
  /** Callers of `tryAcquire`. */
  private tryers: Call[] = [];
  /** Callers of `tryAcquire` whose try is under way. */
  private trying: Call[] = [];
  private readonly held = new Set<Held<Permit>>();
  /** The last permit is used next, so that the others come to the end of `idleFor`. */
  private idle: Held<Permit>[] = [];
  private readonly undecided = new Set<Held<Permit>>();
  private releasing = 0;
  private isClosed = false;
  private readonly sizing: PoolSizing;
  private readonly fairShare: FairShare;
  private outbox: PoolCommand<Call, Permit>[] = [];

  /** @param looksHeld whether the permit is held, as far as this process knows; a permit that is not held is gone */
  constructor(
    private readonly rules: PoolRules,
    private readonly looksHeld: (permit: Permit) => boolean,
  ) {
    this.sizing = new PoolSizing(rules.max, rules.idleForMs, rules.mayGrowTo);
    this.fairShare = new FairShare(rules.reuseForMs, rules.id);
  }

  /** How many callers wait. */
  get waiting(): number {
    return this.line.size + this.tryers.length + this.trying.length;
  }

  /** How many permits are held, without those that are being given back. */
  get holding(): number {
    return this.held.size - this.releasing;
  }

  /** The priority of the first waiting caller. Infinity if no caller waits, or an undecided permit may serve it in a moment. */
  get priorityKey(): number {
    return this.undecided.size > 0
      ? Number.POSITIVE_INFINITY
      : (this.line.first?.priorityKey ?? Number.POSITIVE_INFINITY);
  }

  /** How many permits are to go back for callers that wait elsewhere. */
  get owed(): number {
    return this.fairShare.owed;
  }

  get isTrying(): boolean {
    return this.sizing.isTrying;
  }

  /** Whether no permit is held or asked for. */
  get isEmpty(): boolean {
    return this.held.size === 0 && this.sizing.asked === 0 && !this.sizing.isTrying;
  }

  enqueue(caller: Call): void {
    this.line.add(caller);
  }

  /** A caller that does not wait. */
  tryOnce(caller: Call): void {
    this.tryers.push(caller);
  }

  /** The caller waits no longer. `false`: it had already been served, refused or timed out. */
  withdraw(caller: Call): boolean {
    if (this.line.delete(caller)) return true;
    return [this.tryers, this.trying].some((list) => {
      const index = list.indexOf(caller);
      if (index >= 0) list.splice(index, 1);
      return index >= 0;
    });
  }

  /** A try has brought a permit, or a place in the queue has. */
  acquired(permit: Permit, nowMs: number, place?: Place): Held<Permit> {
    this.sizing.acquired(place);
    const held: Held<Permit> = {
      permit,
      sinceMs: nowMs,
      phase: 'idle',
      idleSinceMs: nowMs,
      uses: 0,
      isUnwanted: false,
    };
    this.held.add(held);
    if (this.isClosed) this.release(held);
    else this.rest(held, nowMs);
    return held;
  }

  /** The try is over. @param failure why it could not be made; callers that wait on are not told of a failure that `passes` */
  tried(nowMs: number, failure?: { error: unknown; passes: boolean }): void {
    this.serve(); // what it has brought by now
    const hasBroughtAll = !failure && this.sizing.hasTryBroughtAll;
    this.sizing.tried(nowMs, failure?.passes ? undefined : failure?.error);
    if (hasBroughtAll) {
      this.tryers.unshift(...this.trying); // slots may be free for the others too
    } else {
      for (const caller of this.trying) {
        this.outbox.push(failure ? { do: 'fail', caller, error: failure.error } : { do: 'refuse', caller });
      }
    }
    this.trying = [];
  }

  /** A place in the queue has ended without a permit. @param error the server's refusal */
  left(place: Place, nowMs: number, error?: unknown): void {
    this.sizing.left(place, nowMs, error);
  }

  /** The call under this permit has ended. */
  finished(held: Held<Permit>, nowMs: number): void {
    if (held.phase !== 'busy' || !this.held.has(held)) return; // lost meanwhile
    const { fairShare } = this;
    const { sinceMs } = held;
    if (this.isClosed || nowMs - sinceMs >= this.rules.retireAfterMs) {
      this.release(held);
      return;
    }
    if (fairShare.isLookDue(sinceMs, nowMs)) this.look(nowMs);
    if (fairShare.isRipe(sinceMs, nowMs) && fairShare.isLooking && fairShare.isStale(nowMs)) {
      held.phase = 'undecided';
      this.undecided.add(held);
    } else {
      this.settle(held, nowMs);
    }
  }

  /** Looks now, since callers elsewhere may wait for the permit of a call that goes on. */
  lookNow(nowMs: number): void {
    if (!this.fairShare.isLooking && !this.isClosed) this.look(nowMs);
  }

  /** The look is over. @param others `undefined` if no worker has answered */
  looked(others: Others | undefined, nowMs: number): void {
    const { releasing } = this;
    const mayGoRound = [...this.held].every(({ sinceMs }) => this.fairShare.mayGoRound(sinceMs, nowMs));
    const priorityKey = this.line.first?.priorityKey ?? Number.POSITIVE_INFINITY;
    this.fairShare.answered(others, { holding: this.holding, releasing, mayGoRound, priorityKey });
    if (others) for (const held of this.held) held.isUnwanted = !others.isInUse(held.permit.slot);
    const isWanted = others && (others.tickets.length > 0 || [...this.held].some((held) => held.isUnwanted));
    this.sizing.looked(isWanted, others?.capacity);
    this.decide(nowMs);
  }

  /** Gives back idle permits, those that are idle longest first, until only `needed` permits are held. */
  trim(needed: number): void {
    this.serve(); // P3
    for (let held = this.idle[0]; held && this.holding > needed; held = this.idle[0]) {
      this.idle.shift();
      this.release(held);
    }
  }

  /** The permit is lost, or has been given back. */
  ended(held: Held<Permit>): void {
    if (!this.held.delete(held)) return;
    if (held.phase === 'idle') this.idle = this.idle.filter((it) => it !== held);
    if (held.phase === 'undecided') this.undecided.delete(held);
    if (held.phase === 'releasing') this.releasing--;
  }

  /** From now on, no caller is served (P6). @returns the callers that waited */
  close(): Call[] {
    this.isClosed = true;
    const waiting: Call[] = [...this.tryers, ...this.trying];
    this.tryers = [];
    this.trying = [];
    for (let caller = this.line.shift(); caller; caller = this.line.shift()) waiting.push(caller);
    this.outbox.push(...this.sizing.leaveAll());
    for (const held of [...this.idle, ...this.undecided]) this.release(held);
    this.idle = [];
    this.undecided.clear();
    return waiting;
  }

  /** What to do now. Each command is returned once. */
  next(nowMs: number): PoolCommand<Call, Permit>[] {
    if (nowMs >= this.answerDueMs) this.decide(nowMs);
    this.serve();
    for (let late = this.line.overdue(nowMs); late; late = this.line.overdue(nowMs)) {
      this.line.delete(late);
      this.outbox.push({ do: 'time-out', caller: late });
    }
    if (!this.isClosed) {
      this.giveBackIdle(nowMs);
      this.grow(nowMs);
    }
    const commands = this.outbox;
    this.outbox = [];
    return commands;
  }

  /** When to call {@link next} if no event comes first. Infinity if only an event can give it something to do. */
  dueMs(): number {
    if (this.isClosed) return Number.POSITIVE_INFINITY; // it waits for calls and answers alone
    const idleSinceMs = this.idle[0]?.idleSinceMs ?? Number.POSITIVE_INFINITY;
    return Math.min(this.line.dueMs, idleSinceMs + this.rules.idleForMs, this.answerDueMs, this.sizing.dueMs());
  }

  private get answerDueMs(): number {
    return this.undecided.size > 0 ? this.fairShare.lookedMs + ANSWER_MS : Number.POSITIVE_INFINITY;
  }

  private serve(): void {
    for (let held = this.idle.at(-1); held; held = this.idle.at(-1)) {
      if (!this.looksHeld(held.permit)) {
        this.ended(held);
        continue;
      }
      const caller = this.line.shift() ?? this.trying.shift() ?? this.tryers.shift(); // P3
      if (!caller) return;
      this.idle.pop();
      held.phase = 'busy'; // P1
      held.uses++;
      this.outbox.push({ do: 'serve', caller, held });
    }
  }

  /** The permit's call has ended: the permit goes back, or is idle until the next call. */
  private settle(held: Held<Permit>, nowMs: number): void {
    if (this.isToGoBack(held, nowMs)) this.release(held);
    else this.rest(held, nowMs);
  }

  /** The look is over, or takes too long: each undecided permit goes back, or serves on. */
  private decide(nowMs: number): void {
    for (const held of this.undecided) this.settle(held, nowMs);
    this.undecided.clear();
  }

  private isToGoBack(held: Held<Permit>, nowMs: number): boolean {
    return this.fairShare.isRipe(held.sinceMs, nowMs) && (held.isUnwanted || this.fairShare.takeDue());
  }

  private rest(held: Held<Permit>, nowMs: number): void {
    held.phase = 'idle';
    held.idleSinceMs = nowMs;
    this.idle.push(held);
  }

  private release(held: Held<Permit>): void {
    held.phase = 'releasing';
    this.releasing++;
    this.outbox.push({ do: 'release', held });
  }

  private giveBackIdle(nowMs: number): void {
    if (this.idle.length === 0) return;
    const { idleForMs } = this.rules;
    this.idle = this.idle.filter((held) => {
      const isKept = nowMs < held.idleSinceMs + idleForMs && !this.isToGoBack(held, nowMs);
      if (!isKept) this.release(held);
      return isKept;
    });
  }

  private look(nowMs: number): void {
    this.fairShare.asked(nowMs);
    this.outbox.push({ do: 'look' });
  }

  private grow(nowMs: number): void {
    const { first } = this.line;
    const status: PoolStatus = {
      nowMs,
      waiting: this.line.size,
      priorityKey: first?.priorityKey ?? 0,
      holding: this.holding,
      releasing: this.releasing,
      owed: this.fairShare.owed,
      undecided: this.undecided.size,
      isLooking: this.fairShare.isLooking,
    };
    this.tryForTryers(status);
    const refusal = this.sizing.takeRefusal(status);
    if (refusal) {
      for (let caller = this.line.shift(); caller; caller = this.line.shift())
        this.outbox.push({ do: 'fail', caller, error: refusal.error });
      return;
    }
    for (const command of this.sizing.next(status)) {
      if (command.do === 'look') this.look(nowMs);
      else this.outbox.push({ ...command, caller: first });
    }
  }

  /** If the pool may ask for no more permits, or others wait for what it gets, there is nothing to try. */
  private tryForTryers(status: PoolStatus): void {
    const [caller] = this.tryers;
    if (!caller) return;
    const room = this.sizing.room(status);
    if (status.waiting > 0 || room <= 0) {
      for (const late of this.tryers) this.outbox.push({ do: 'refuse', caller: late });
      this.tryers = [];
    } else if (!this.sizing.isTrying) {
      this.trying = this.tryers;
      this.tryers = [];
      this.outbox.push({ ...this.sizing.tryOnce(Math.min(this.trying.length, room)), caller });
    }
  }
}
