import type {
  ClosingNotice,
  OverrideInput,
  OverrideState,
  PreemptibleNotice,
  QueueView,
  SlotState,
  Ticket,
  UnheardTurns,
} from '../../shared/protocol';
import { setLast } from '../../shared/set-last';
import { Demand } from './demand';
import { Doubts } from './doubts';
import { InUse } from './in-use';
import { Line } from './line';
import { OFFER_TIMEOUT_MS, Patience, waiterOf } from './patience';
import { Preemption } from './preemption';
import { atMost, probeAfterMs, type QueueCommand } from './queue-command';
import { RollCall } from './roll-call';
import { type OfferedSlot, Turns } from './turns';

/** At most so many waiters have a turn for one slot at once. */
const MAX_TURNS = 16;

/**
 * How long the queue counts a slot as held although nobody wants it, so that nobody asks. Meanwhile an empty queue stays. The
 * next waiter finds it, instead of a new queue that knows nothing and asks each second. So a line that forms and goes a
 * thousand times a day costs a holder no more signals than one that stands all day.
 */
export const HELD_UNSEEN_MS = 30 * 60_000;

/** The queue remembers so many slots. With more, it forgets the held ones that nobody wants. */
const MAX_SEEN = 2_000;

/** The queue remembers so many permits that have closed. */
const MAX_CLOSED = 2_000;

/** While the queue gives turns. */
interface Round {
  nowMs: number;
  /** The waiters without a turn that ask for a holder to give way. */
  preemptors: readonly Ticket[];
}

/**
 * What each slot is doing, who waits, and so what the queue does next. Pure: each event comes in by a method of its own, the clock
 * as `nowMs`, and {@link next} says what to do. The queue never grants a permit. A turn says "this slot looks free", and the claim
 * decides. A wrong guess here costs time, never safety.
 *
 *     unknown --probe: delivered--> held --closing--> free --turn sent--> offered --closing--> free
 *        |                           '--due--> probe      |                  |--missed--> unknown, the ticket keeps its place
 *        '---probe: not found--> free                     |                  |--declined | waiter gone--> free, ticket dropped
 *     free, and nobody wants it ------------> unknown <---'                  '--overdue--> probe, ticket dropped
 *
 * An unknown slot has no state. A claim made on a turn starts a permit that the queue watches from its start. So an offered
 * slot needs no answer: the next word of it is `closing`. When no word comes in time, a probe settles whether it is held.
 *
 * This class moves the slots, and asks its parts, which know nothing of each other: the {@link Line}, {@link Patience} with waiters that
 * send no word, {@link Doubts} about the length of the line, the {@link RollCall} of who is there, what is {@link InUse}, and
 * {@link Preemption}.
 *
 * Invariants, which the model test checks after each event:
 *
 * - **Q1** A ticket has at most one turn.
 * - **Q2** A wanted slot is held, offered or under a probe: none idles as free or unknown.
 * - **Q3** A slot goes to the first in turn order of the waiters that want it and have no turn.
 * - **Q4** to **Q6** see {@link Preemption}.
 * - **Q7** No waiter is in line that wants more permits than an operator has left.
 * - **Q8** No waiter that gives way gets a turn once the queue knows of a better priority behind it.
 */
export class QueueState {
  private readonly slots: Map<string, SlotState>;
  private readonly line: Line;
  private readonly turns: Turns;
  private readonly patience = new Patience((isOf) => this.line.resort(isOf));
  private readonly doubts = new Doubts();
  private readonly rollCall: RollCall;
  private readonly inUse: InUse;
  private readonly preemption: Preemption;
  /** The run whose `closing` came last. A permit may say it twice. */
  private readonly lastClosed = new Map<string, string>();

  constructor(view?: QueueView) {
    this.slots = new Map(view?.slots);
    this.line = new Line((ticket) => this.patience.isSilent(waiterOf(ticket)), view);
    this.turns = new Turns(this.slots);
    this.inUse = new InUse(this.slots, view?.override);
    this.rollCall = new RollCall(view?.calledAtMs);
    this.preemption = new Preemption(this.slots, (waiter, slot) => this.inUse.allows(waiter, slot));
  }

  // --- What waiters say ---

  /**
   * Takes a ticket in, or in place of the one with the same ID. `false` when the line is full, or longer than the ticket allows, or
   * when its waiter wants more permits than an operator has left.
   *
   * @param nowMs when it comes; without it, when its acquire began
   * @param hadTurn its waiter stood in line, although the queue may have taken it for gone since
   */
  enqueue(ticket: Ticket, nowMs = ticket.sinceMs, hadTurn = false): boolean {
    const { id, maxWaiting } = ticket;
    const known = this.ticket(id);
    if (!this.inUse.hasEnoughFor(ticket)) {
      if (known) this.drop(known); // Q7
      return false;
    }
    this.rollCall.heard(ticket, nowMs);
    if (!known) this.dropEarlierRuns(ticket);
    const isBounded = maxWaiting !== undefined && !hadTurn && !known;
    const isFull = isBounded && this.waitingCount >= maxWaiting;
    if (isFull && !this.mayBeFree(ticket) && !this.rollCall.begin(this.waiting(), nowMs)) return false;
    const isTaken = this.take(ticket);
    if (isFull && isTaken) this.doubts.add(id);
    return isTaken;
  }

  private take(ticket: Ticket): boolean {
    const known = this.ticket(ticket.id);
    if (!this.line.hasRoomFor(ticket, this.overridden)) return false;
    const isNextWaiter = known?.waiter.runId !== ticket.waiter.runId; // … of one acquirer, or its first
    // The Workflow in which a client's ticket waits sends it again, whether the client lives or not.
    if (isNextWaiter || ticket.identity === undefined) this.patience.heard(waiterOf(ticket));
    if (known && isNextWaiter) this.withdrawFrom(known, 'unknown');
    this.line.add(ticket);
    if (ticket.kept && !known) this.hasUsedTurnBefore(ticket);
    return true;
  }

  /** The waiter found its slot taken. It waits on, in its old place. `false` as {@link enqueue} says it. */
  missed(ticket: Ticket, slot: string, nowMs = ticket.sinceMs): boolean {
    this.heardLate(waiterOf(ticket));
    const state = this.slots.get(slot);
    // The slot was free, and somebody else is there now: most likely the first waiter that let its turn pass.
    if (state?.at === 'offered' && state.unheard) this.heardLate(state.unheard.first);
    if (this.turns.isOf(slot, ticket.id)) {
      this.patience.shrink();
      this.withdraw(slot, ticket, 'unknown');
      this.turns.endReservations();
    }
    return this.enqueue(ticket, nowMs, true);
  }

  /** A waiter uses its turn. If the queue has taken the waiter for dead, it is slow. */
  private heardLate(waiter: string): void {
    if (this.patience.heard(waiter)) this.patience.grow();
  }

  /**
   * The waiter waits no longer. The turn that it may have had goes on at once: `true` if it had one.
   * @param runId of the waiter; its ticket may have passed to the next waiter of the same acquirer, and then stays
   */
  declined(ticketId: string, runId?: string): boolean {
    const ticket = this.ticket(ticketId);
    if (!ticket || (runId !== undefined && ticket.waiter.runId !== undefined && ticket.waiter.runId !== runId))
      return false;
    const hadTurn = this.drop(ticket);
    // A client passes its turn on. The Workflow in which its ticket waits leaves after five minutes, whether the client lives or not.
    if (hadTurn || ticket.identity === undefined) this.patience.heard(waiterOf(ticket));
    return hadTurn;
  }

  /** Takes the ticket out of the line, and its turn back: `true` if it had one. */
  private drop(ticket: Ticket): boolean {
    const hadTurn = this.withdrawFrom(ticket, 'free');
    this.line.remove(ticket.id);
    return hadTurn;
  }

  /** The turn found no Workflow: its waiter is gone. */
  undeliverable(slot: string, ticketId: string): void {
    const ticket = this.turns.isOf(slot, ticketId) ? this.ticket(ticketId) : undefined;
    if (ticket) this.dropAllOf(ticket);
  }

  /** The run that waits through this ticket has ended, and with it whatever else it waited for. */
  private dropAllOf(ticket: Ticket): void {
    for (const other of this.line.besides(ticket)) if (other.waiter.runId === ticket.waiter.runId) this.drop(other);
  }

  /** A Workflow runs once. So what its earlier runs have waited for, nobody waits for any more. */
  private dropEarlierRuns(ticket: Ticket): void {
    for (const other of this.line.besides(ticket)) if (other.waiter.runId !== ticket.waiter.runId) this.drop(other);
  }

  /** A waiter that was asked whether it is there has answered, or is gone. */
  present(ticket: Ticket, isThere: boolean, nowMs: number): void {
    this.rollCall.answered(ticket, isThere, nowMs);
    if (!isThere) this.dropAllOf(ticket);
  }

  /** The last run of the queue hands these tickets on as {@link inDoubt}. */
  doubt(ticketIds: readonly string[]): void {
    for (const id of ticketIds) this.doubts.add(id);
  }

  /** Somebody of this priority waits for a resource. See {@link Line.inherit}. */
  inherit(resource: string, priorityKey: number): void {
    this.line.inherit(resource, priorityKey);
  }

  // --- What permits say ---

  /** A watched permit is about to end. */
  closing({ slot, runId, releasedBy }: ClosingNotice): void {
    if (releasedBy !== undefined && this.patience.isSilent(releasedBy)) this.heardLate(releasedBy);
    const state = this.slots.get(slot);
    if (!state || this.lastClosed.get(slot) === runId) return;
    setLast(this.lastClosed, slot, runId, MAX_CLOSED);
    this.close(slot, state, runId);
  }

  private close(slot: string, state: SlotState, runId: string): void {
    if (state.at === 'draining') state.closed.push(runId);
    // Old news, or the queue's own claim has ended without a word: a renewal tells.
    else if (state.at === 'drained' && state.runId !== runId) this.slots.set(slot, { ...state, renewAtMs: 0 });
    // The probe's answer may be older than this news, so it must not overrule it.
    else if (state.at === 'probing') this.slots.set(slot, { ...state, closed: true });
    else {
      if (state.at === 'offered') {
        this.dropTicket(state); // it was served, and is done already
        this.patience.shrink();
        if (!state.reserved) this.turns.endReservations();
      }
      this.slots.set(slot, { at: 'free' });
    }
  }

  /** A probe's answer: `held` if a permit took the `watch`. */
  probed(slot: string, held: boolean, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state?.at !== 'probing') return;
    const { overdue, drainedBy } = state;
    if (!held || state.closed) {
      const isUnheard = overdue && !state.closed;
      if (isUnheard) this.patience.letPass(overdue.waiter);
      this.slots.set(slot, isUnheard ? { at: 'free', unheard: overdue } : { at: 'free' });
      return;
    }
    if (overdue) this.patience.clear(overdue.waiter);
    const sinceMs = state.heldSinceMs ?? nowMs;
    // A turn that was used a second ago has a permit that knows its queue. So there is no haste.
    const afterMs = overdue ? OFFER_TIMEOUT_MS : probeAfterMs(nowMs - sinceMs, this.slots.size);
    const asked = this.preemption.afterProbe(state, nowMs);
    this.slots.set(slot, { at: 'held', sinceMs, probeAtMs: nowMs + afterMs, ...asked });
    if (drainedBy !== undefined) this.drained(slot, drainedBy);
  }

  /** A permit that was asked says that it keeps the slot out of use. */
  drained(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state?.at === 'probing') this.slots.set(slot, { ...state, drainedBy: runId }); // the probe's own answer is still to come
    if (this.lastClosed.get(slot) !== runId) this.inUse.adopt(slot, runId);
  }

  /** A permit says that its holder may have to give way. */
  preemptible(notice: PreemptibleNotice, nowMs: number): void {
    if (this.lastClosed.get(notice.slot) === notice.runId) return;
    const used = this.preemption.answered(notice, nowMs);
    if (used) this.dropTicket(used);
  }

  /** A permit that was asked to give way has ended. */
  notThere(slot: string, runId: string): void {
    this.preemption.notThere(slot, runId);
  }

  // --- What operators say, and what came of it ---

  /** What an operator has set; `undefined` when nothing is. */
  get overridden(): OverrideState | undefined {
    return this.inUse.override;
  }

  /** The slots that some waiter takes the resource to have, where this slot is not among them and no operator has set how many there are. */
  othersOf(slot: string): Ticket['slots'] | undefined {
    return this.overridden?.capacity === undefined ? this.line.demand.without(slot) : undefined;
  }

  /** Whether what an operator wants to set, and the line, fit into what one run can hand to the next. */
  hasRoomFor(input: OverrideInput): boolean {
    return this.line.allows(input);
  }

  /** An operator changes which slots are in use. @returns what is set now */
  setOverride(input: OverrideInput, nowMs: number): OverrideState {
    return this.inUse.set(input, nowMs);
  }

  get isInForce(): boolean {
    return this.inUse.isInForce(this.line.demand);
  }

  /** A claim's answer: the permit's run, or `undefined` when somebody else was faster. */
  claimed(slot: string, runId: string | undefined, nowMs: number): void {
    this.inUse.claimed(slot, runId, nowMs);
  }

  /** The queue's own claim on a slot has ended without a word. */
  gone(slot: string, runId: string): void {
    this.inUse.gone(slot, runId);
  }

  // --- What the queue does next ---

  /**
   * What to do now: at most `room` commands. When it gives that many, more may be due. Each call moves the slots concerned on,
   * so it gives a command once.
   */
  next(nowMs: number, room = Number.POSITIVE_INFINITY): QueueCommand[] {
    this.inUse.expire(nowMs);
    return atMost(room, this.moves(nowMs));
  }

  private *moves(nowMs: number): Generator<QueueCommand> {
    yield* this.refusals();
    for (const ticket of this.settledLine().takeOutranked()) yield { do: 'give-way', ticket }; // Q8
    const round = { nowMs, preemptors: this.preemptors() };
    for (const [slot, state] of this.slots) {
      const command = this.move(slot, state, round);
      if (command) yield command;
    }
    for (const slot of this.slotsOfInterest()) if (!this.slots.has(slot)) yield this.probe(slot, round); // Q2
    for (const [slot, state] of this.slots) {
      // Last: a thousand held slots must not keep a free one from being found.
      if (state.at !== 'held' || state.probeAtMs > nowMs) continue;
      if (this.isOfInterest(slot)) yield this.probe(slot, round);
    }
    yield* this.settleDoubts(nowMs); // what is free has been given by now
    for (const ticket of this.rollCall.questions()) yield { do: 'ask-waiter', ticket };
    const preemptors = this.preemptors(); // some have their turn now
    yield* this.preemption.moves(preemptors, nowMs, (slot) => this.probe(slot, { preemptors }));
  }

  /** Takes the tickets out of the line that want more permits than an operator has left. */
  private *refusals(): Generator<QueueCommand> {
    if (this.overridden?.capacity === undefined) return;
    for (const ticket of this.line.accumulators()) {
      if (this.inUse.hasEnoughFor(ticket)) continue;
      this.drop(ticket); // Q7
      yield { do: 'refuse', ticket };
    }
  }

  private *settleDoubts(nowMs: number): Generator<QueueCommand> {
    const mayBeFree = (it: Ticket) => this.mayBeFree(it);
    const mayBeGone = () => this.rollCall.begin(this.waiting(), nowMs);
    for (const ticket of this.doubts.settle(this.waiting(), mayBeFree, mayBeGone)) {
      this.drop(ticket);
      yield { do: 'refuse', ticket };
    }
  }

  /** What to do with a slot of which something is known. */
  private move(slot: string, state: SlotState, round: Round): QueueCommand | undefined {
    const { nowMs } = round;
    switch (state.at) {
      case 'unseen':
        return this.probe(slot, round);
      case 'free':
        return this.isToDrain(slot) ? this.inUse.drain(slot) : this.offer(slot, state.unheard, round);
      case 'offered':
        return this.overdueMs(slot, state) <= nowMs ? this.probeOverdue(slot, state, round) : undefined;
      case 'held': {
        const isOld = state.probeAtMs + HELD_UNSEEN_MS <= nowMs || this.slots.size > MAX_SEEN;
        if (isOld && !this.isOfInterest(slot)) this.slots.delete(slot);
        return undefined;
      }
      case 'drained':
        return this.inUse.keep(slot, state, this.line.demand, nowMs);
      case 'probing':
      case 'draining':
        return undefined; // an answer is due
    }
  }

  /** When {@link next} has something to do although nothing happens. Infinity when it has not. */
  dueMs(): number {
    let dueMs = this.inUse.endsAtMs;
    const preemptors = this.preemptors(); // first: it settles the line, of which the slots of interest are asked
    for (const [slot, state] of this.slots) {
      if (state.at === 'offered') dueMs = Math.min(dueMs, this.overdueMs(slot, state));
      if (state.at === 'held' && this.isOfInterest(slot)) dueMs = Math.min(dueMs, state.probeAtMs);
      if (state.at === 'drained') dueMs = Math.min(dueMs, state.renewAtMs);
    }
    return Math.min(dueMs, this.preemption.dueMs(preemptors));
  }

  private probe(slot: string, { preemptors }: Pick<Round, 'preemptors'>): QueueCommand & { do: 'probe' } {
    const state = this.slots.get(slot);
    this.lastClosed.delete(slot); // a permit that is asked while it ends says it once more, and that is news
    const heldSinceMs = state?.at === 'held' ? state.sinceMs : undefined;
    const asked = this.preemption.beforeProbe(slot, preemptors);
    this.slots.set(slot, { at: 'probing', heldSinceMs, ...asked });
    return { do: 'probe', slot, ...(asked.asks && { asks: true }) };
  }

  /** The turn was used without a word, or its waiter is dead or slow. A probe will tell, and a live waiter comes again by itself. */
  private probeOverdue(slot: string, state: OfferedSlot, round: Round): QueueCommand {
    const ticket = this.ticket(state.ticketId);
    const waiter = ticket ? this.patience.suspect(ticket) : '';
    const { turns = 1, first = waiter } = state.unheard ?? {};
    const overdue = { turns, waiter, first };
    this.dropTicket(state);
    const command = this.probe(slot, round);
    const probing = this.slots.get(slot);
    if (probing?.at === 'probing' && !state.reserved) this.slots.set(slot, { ...probing, overdue });
    return { ...command, overdue: true };
  }

  /** Only where somebody else wants the slot, the queue is in haste. */
  private overdueMs(slot: string, { untilMs }: OfferedSlot): number {
    return this.isOfInterest(slot) ? this.patience.shortened(untilMs) : untilMs;
  }

  /**
   * Gives a free slot to the first in turn order. A free slot without a taker is forgotten: a newcomer may take it unseen. Where the
   * last turns brought no word, it gives twice as many: their tickets leave the line, and waiters that live and are beaten come back.
   */
  private offer(slot: string, unheard: UnheardTurns | undefined, round: Round): QueueCommand | undefined {
    if (this.line.hasAccumulator && this.reserve(slot, round.nowMs)) return undefined;
    const ticket = this.takeFirst(slot); // Q3
    if (!ticket) {
      this.slots.delete(slot);
      return undefined;
    }
    this.line.charge(ticket);
    const offered = { at: 'offered', ticketId: ticket.id, untilMs: round.nowMs + OFFER_TIMEOUT_MS } as const;
    this.slots.set(slot, offered);
    const command = { do: 'offer', slot, ticket } as const;
    if (!unheard) return command;
    const also: Ticket[] = [];
    while (also.length + 1 < Math.min(2 * unheard.turns, MAX_TURNS)) {
      const next = this.takeFirst(slot);
      if (!next) break;
      also.push(next);
      this.line.remove(next.id);
    }
    this.slots.set(slot, { ...offered, unheard: { turns: 1 + also.length, first: unheard.first } });
    return { ...command, also };
  }

  private takeFirst(slot: string): Ticket | undefined {
    if (!this.isOfInterest(slot)) return undefined;
    return this.line.takeFirst((slots) => this.inUse.allows({ slots }, slot)); // Q1
  }

  // --- Which slots matter to whom ---

  /** Slots that somebody without a turn wants, and slots that are to be out of use. */
  private slotsOfInterest(): Iterable<string> {
    const { demand, wanted } = this.line;
    if (!this.overridden) return wanted.slots();
    const slots = [...wanted.slots(), ...this.inUse.names(), ...demand.slots()];
    return new Set(slots.filter((slot) => this.isOfInterest(slot)));
  }

  private isOfInterest(slot: string): boolean {
    if (!this.inUse.has(slot)) return this.isToDrain(slot);
    const { wanted } = this.line;
    return wanted.has(slot) || (wanted.counts && this.inUse.hasAdded(slot));
  }

  private isToDrain(slot: string): boolean {
    return this.inUse.isToDrain(slot, this.line.demand);
  }

  private wants(ticket: Ticket, slot: string): boolean {
    return this.inUse.allows(ticket, slot);
  }

  /** Whether a slot that the waiter would take is free, or nobody knows. */
  private mayBeFree(ticket: Ticket): boolean {
    for (const slot of new Set([...new Demand([ticket]).slots(), ...this.inUse.names()])) {
      const state = this.slots.get(slot);
      if (this.wants(ticket, slot) && !(state && isTaken(state))) return true;
    }
    return false;
  }

  // --- Turns ---

  private reserve(slot: string, nowMs: number): boolean {
    const ticketOf = (id: string) => this.ticket(id);
    // A reservation that is overdue at once would be probed and made again without end.
    const stands = (untilMs: number) => this.patience.shortened(untilMs) > nowMs;
    return this.turns.reserve(slot, ticketOf, (waiter, untilMs) => stands(untilMs) && this.wants(waiter, slot));
  }

  /** An accumulator that lines up for its next permit has used its turn before. There is one at a time. */
  private hasUsedTurnBefore(next: Ticket): void {
    for (const id of this.turns.ticketIds()) if (id !== next.id && this.ticket(id)?.permits) this.line.remove(id);
    this.turns.endReservations();
  }

  /** The turn was used, or its waiter is dead or slow. */
  private dropTicket({ ticketId, reserved }: OfferedSlot): void {
    if (!reserved) this.line.remove(ticketId);
  }

  /** Takes back the turn that the ticket may have: `true` if it had one. */
  private withdrawFrom(ticket: Ticket, to: 'free' | 'unknown'): boolean {
    const turns = this.turns.slotsOf(ticket.id);
    for (const slot of turns) this.withdraw(slot, ticket, to);
    return turns.length > 0;
  }

  private withdraw(slot: string, ticket: Ticket, to: 'free' | 'unknown'): void {
    const state = this.slots.get(slot);
    if (state?.at === 'offered' && !state.reserved) this.line.refund(ticket);
    if (to === 'free') this.slots.set(slot, { at: 'free' });
    else this.slots.delete(slot);
  }

  // --- What the queue knows ---

  ticket(ticketId: string): Ticket | undefined {
    return this.line.ticket(ticketId);
  }

  /** Tickets without a turn. */
  *waiting(): Generator<Ticket> {
    yield* this.settledLine().without();
  }

  /** Tickets without a turn whose callers keep permits of other resources. */
  inheriting(): Iterable<Ticket> {
    return this.settledLine().without('inherits');
  }

  /** The best priority of those without a turn. Infinity when there are none. */
  get bestPriority(): number {
    return this.settledLine().bestPriority;
  }

  private preemptors(): readonly Ticket[] {
    return [...this.settledLine().without('preempt')];
  }

  /** How many wait without a turn. */
  get waitingCount(): number {
    return this.settledLine().waitingCount;
  }

  /** The line, when it knows which tickets have turns. */
  private settledLine(): Line {
    this.line.settle(this.turns.ticketIds());
    return this.line;
  }

  /** The tickets that may be beyond their bound on the line. The next run of the queue is told with {@link doubt}. */
  get inDoubt(): string[] {
    return this.doubts.all;
  }

  /** Somebody is to be told to give way. The next run of the queue would not know. */
  get hasOutranked(): boolean {
    return this.line.hasOutranked;
  }

  /** Nobody waits, nothing is set, and no slot is kept out of use. */
  get idle(): boolean {
    return this.line.isEmpty && !this.overridden && this.inUse.keepsNone;
  }

  /** Whether a permit that runs will tell when it closes. */
  get awaitsClosing(): boolean {
    for (const { at } of this.slots.values()) if (at === 'held') return true;
    return false;
  }

  view(): QueueView {
    const {
      overridden,
      rollCall: { calledAtMs },
    } = this;
    return {
      ...this.line.view(),
      slots: [...this.slots],
      ...(overridden && { override: overridden }),
      ...(calledAtMs !== undefined && { calledAtMs }),
    };
  }
}

/** Whether somebody has the slot, and goes on: it is neither closing nor on its way back from the queue. */
function isTaken(state: SlotState): boolean {
  if (state.at === 'probing') return state.heldSinceMs !== undefined && !state.closed;
  return state.at === 'offered' || (state.at === 'held' && state.runId === undefined);
}
