import { CallerLine, type LineEntry } from './caller-line';
import { FairShare, type Others } from './fair-share';
import { type Place, PoolSizing, type PoolStatus, type SizingCommand } from './pool-sizing';

/** How long a permit waits for the answer of a look before it serves on. */
export const ANSWER_MS = 250;

/** A permit that the pool holds. */
export interface Held<Permit> {
  readonly permit: Permit;
  readonly sinceMs: number;
  phase: 'idle' | 'busy' | 'asking' | 'releasing';
  idleSinceMs: number;
  /** Calls that it has served. */
  uses: number;
  /** An operator has taken its slot out of use. */
  isUnwanted: boolean;
}

export type PoolCommand<Call, Permit> =
  | { do: 'serve'; caller: Call; held: Held<Permit> }
  /** Its time is up. */
  | { do: 'time-out'; caller: Call }
  /** It does not wait, and there is none. */
  | { do: 'refuse'; caller: Call }
  | { do: 'fail'; caller: Call; error: unknown }
  | { do: 'release'; held: Held<Permit> }
  /** `caller`: the first of those for whom it is. */
  | (SizingCommand & { caller?: Call });

export interface PoolRules {
  /** On the tickets of the pool. */
  readonly id: string;
  readonly max: number;
  /** The most that it holds where an operator has added slots. @default `max` */
  readonly mayGrowTo?: number;
  readonly reuseForMs: number;
  readonly idleForMs: number;
  /** A permit that was held so long is given back even if nobody else waits: the server ends each run some day. */
  readonly retireAfterMs: number;
}

/**
 * The callers in line, the permits held, and so what the pool does next. Pure: each event comes in by a method of its own,
 * the clock as `nowMs`, and {@link next} says what to do.
 *
 *     a permit:  idle --serve--> busy --call ends--> idle --idleFor--> releasing --> gone
 *                                  |--ripe, and others wait--> releasing
 *                                  '--ripe, and nobody knows--> asking --answer--> idle | releasing
 *     from any of them: lost --> gone
 *
 * Invariants, which the model test checks after each event:
 *
 * - **P1** A permit serves one caller at a time, and none once it is releasing or gone.
 * - **P2** The permits held, those being given back included, and those asked for are never more than `max`, or than an operator has set, up to
 *   `mayGrowTo`. Those that are too many after a later order go back at the end of their calls.
 * - **P3** No caller waits while a permit is idle; callers are served by priority, then arrival.
 * - **P4** There is one look at a time, and none while no call is under a permit or has just ended, and nobody waits.
 * - **P5** Every caller ends in exactly one of: served, timed out, refused, failed, or taken out of the line.
 * - **P6** Once closed, the pool serves nobody, asks for nothing, and gives each permit back at the end of its call.
 */
export class PoolState<Call extends LineEntry, Permit extends { readonly slot: string }> {
  private readonly line = new CallerLine<Call>();
  /** Callers of `tryAcquire`. */
  private tryers: Call[] = [];
  /** Callers of `tryAcquire` whose try is under way. */
  private trying: Call[] = [];
  private readonly held = new Set<Held<Permit>>();
  /** The last one is used next, so that the others come to the end of `idleFor`. */
  private idle: Held<Permit>[] = [];
  private readonly asking = new Set<Held<Permit>>();
  private releasing = 0;
  private isClosed = false;
  private readonly sizing: PoolSizing;
  private readonly fairShare: FairShare;
  private outbox: PoolCommand<Call, Permit>[] = [];

  /** @param looksHeld whether the permit is held, by all that is known here; one that is not is gone */
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

  /** How many permits are held that are not being given back. */
  get holding(): number {
    return this.held.size - this.releasing;
  }

  /** The priority of the first caller in line. Infinity: none waits, or a permit may be its in a moment. */
  get priorityKey(): number {
    return this.asking.size > 0 ? Number.POSITIVE_INFINITY : (this.line.first?.priorityKey ?? Number.POSITIVE_INFINITY);
  }

  /** How many permits are to go back to those who wait elsewhere. */
  get owed(): number {
    return this.fairShare.owed;
  }

  get isTrying(): boolean {
    return this.sizing.isTrying;
  }

  /** Nothing is held or asked for. */
  get isEmpty(): boolean {
    return this.held.size === 0 && this.sizing.asked === 0 && !this.sizing.isTrying;
  }

  enqueue(caller: Call): void {
    this.line.add(caller);
  }

  /** One that does not wait. */
  tryOnce(caller: Call): void {
    this.tryers.push(caller);
  }

  /** The caller waits no longer. `false`: it had been served, or told otherwise. */
  withdraw(caller: Call): boolean {
    if (this.line.delete(caller)) return true;
    return [this.tryers, this.trying].some((list) => {
      const index = list.indexOf(caller);
      if (index >= 0) list.splice(index, 1);
      return index >= 0;
    });
  }

  /** A try has brought a permit, or a place in line has. */
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

  /** The try is over. @param failure why it could not be made; one that passes is not told to those who wait on */
  tried(nowMs: number, failure?: { error: unknown; passes: boolean }): void {
    this.serve(); // what it has brought by now
    const isEachHad = !failure && this.sizing.isEachHad;
    this.sizing.tried(nowMs, failure?.passes ? undefined : failure?.error);
    if (isEachHad) {
      this.tryers.unshift(...this.trying); // slots may be free for the others too
    } else {
      for (const caller of this.trying) {
        this.outbox.push(failure ? { do: 'fail', caller, error: failure.error } : { do: 'refuse', caller });
      }
    }
    this.trying = [];
  }

  /** A place in line has ended without a permit. @param error what the server refused */
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
      held.phase = 'asking';
      this.asking.add(held);
    } else {
      this.settle(held, nowMs);
    }
  }

  /** Somebody elsewhere may wait for the permit of a call that goes on. */
  lookNow(nowMs: number): void {
    if (!this.fairShare.isLooking && !this.isClosed) this.look(nowMs);
  }

  /** The look is over. @param others `undefined` when nobody has answered */
  looked(others: Others | undefined, nowMs: number): void {
    const { releasing } = this;
    const isSettled = [...this.held].every(({ sinceMs }) => this.fairShare.isSettled(sinceMs, nowMs));
    const priorityKey = this.line.first?.priorityKey ?? Number.POSITIVE_INFINITY;
    this.fairShare.answered(others, { holding: this.holding, releasing, isSettled, priorityKey });
    if (others) for (const held of this.held) held.isUnwanted = !others.isInUse(held.permit.slot);
    const isWanted = others && (others.tickets.length > 0 || [...this.held].some((held) => held.isUnwanted));
    this.sizing.looked(isWanted, others?.capacity);
    this.settleAsking(nowMs);
  }

  /** Gives back idle permits, those that rest longest first, until so many are held. */
  trim(most: number): void {
    this.serve(); // P3
    for (let held = this.idle[0]; held && this.holding > most; held = this.idle[0]) {
      this.idle.shift();
      this.release(held);
    }
  }

  /** The permit is lost, or has been given back. */
  ended(held: Held<Permit>): void {
    if (!this.held.delete(held)) return;
    if (held.phase === 'idle') this.idle = this.idle.filter((it) => it !== held);
    if (held.phase === 'asking') this.asking.delete(held);
    if (held.phase === 'releasing') this.releasing--;
  }

  /** From now on nobody is served (P6). @returns those who waited */
  close(): Call[] {
    this.isClosed = true;
    const waiting: Call[] = [...this.tryers, ...this.trying];
    this.tryers = [];
    this.trying = [];
    for (let caller = this.line.shift(); caller; caller = this.line.shift()) waiting.push(caller);
    this.outbox.push(...this.sizing.leaveAll());
    for (const held of [...this.idle, ...this.asking]) this.release(held);
    this.idle = [];
    this.asking.clear();
    return waiting;
  }

  /** What to do now. Each call moves the state on, so it gives a command once. */
  next(nowMs: number): PoolCommand<Call, Permit>[] {
    if (nowMs >= this.answerDueMs) this.settleAsking(nowMs);
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

  /** When {@link next} has something to do although nothing happens. Infinity when it has not. */
  dueMs(): number {
    if (this.isClosed) return Number.POSITIVE_INFINITY; // it waits for calls and answers alone
    const idleSinceMs = this.idle[0]?.idleSinceMs ?? Number.POSITIVE_INFINITY;
    return Math.min(this.line.dueMs, idleSinceMs + this.rules.idleForMs, this.answerDueMs, this.sizing.dueMs());
  }

  private get answerDueMs(): number {
    return this.asking.size > 0 ? this.fairShare.lookedMs + ANSWER_MS : Number.POSITIVE_INFINITY;
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

  /** The permit's call has ended: it goes back, or rests until the next call. */
  private settle(held: Held<Permit>, nowMs: number): void {
    if (this.isToGoBack(held, nowMs)) this.release(held);
    else this.rest(held, nowMs);
  }

  private settleAsking(nowMs: number): void {
    for (const held of this.asking) this.settle(held, nowMs);
    this.asking.clear();
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
      asking: this.asking.size,
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

  /** Where the pool may ask for no more, or others wait for what it gets, there is nothing to try. */
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
