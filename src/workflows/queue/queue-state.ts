import type {
  ClosingNotice,
  OverrideInput,
  OverrideState,
  PreemptibleNotice,
  QueueView,
  Ticket,
} from '../../shared/protocol';
import { slotNames } from '../../shared/slots';
import { Admission } from './admission';
import { Drains } from './drains';
import { InUse } from './in-use';
import { Line } from './line';
import { OfferTimeouts, waiterOf } from './offer-timeouts';
import { Offers } from './offers';
import { PermitWatch } from './permit-watch';
import { Preemption } from './preemption';
import { atMost, type QueueCommand } from './queue-command';
import { RollCall } from './roll-call';
import { type KnownSlot, SlotTable } from './slot-table';
import { Wanted } from './wanted';

/**
 * How long the queue remembers a held slot that no waiter wants, and that it therefore does not probe, counted from the time of its next probe.
 * Meanwhile the queue's Workflow stays open even if no caller waits, so the next waiter finds it, and not a new queue that knows nothing and
 * has to probe all slots. So a queue of waiters that forms and dissolves a thousand times a day costs a holder no more signals than one that
 * lasts all day.
 */
export const REMEMBER_HELD_MS = 30 * 60_000;

/** If the queue knows more slots than this, it forgets the held slots that no waiter wants, without waiting for {@link REMEMBER_HELD_MS}. */
const MAX_SEEN = 2_000;

/** What is fixed while one call of {@link QueueState.next} goes through the slots. */
interface Round {
  nowMs: number;
  /** The tickets that ask for a holder to give way, and had no turn when the round began. */
  preemptors: readonly Ticket[];
}

/**
 * What each slot is doing, who waits, and so what the queue does next. Pure: each kind of event has a method, the clock comes in as
 * `nowMs`, and {@link next} returns what to do. The queue never grants a permit. A turn says "this slot looks free", and the claim
 * decides. A wrong guess here costs time, never safety.
 *
 * - A **ticket** is one acquirer's place in line. Its **waiter** is the Workflow that receives the turn.
 * - A **turn** tells a waiter to claim a slot. The slot is `offered` until the queue learns how the turn ended.
 * - A **probe** sends `watch` to the permit of a slot. If there is such a permit, the slot is held. The permit is **watched** from then on:
 *   it sends `closing` before it ends.
 * - **Wanted**, **eligible** and **out of use** are defined at {@link Wanted}, a **silent** waiter at {@link OfferTimeouts}, an
 *   **accumulator** and its reserved slots at {@link Offers}, a ticket **in doubt** at `Doubts`.
 *
 *     unknown --probe: delivered--> held --closing--> free --turn sent--> offered --closing--> free
 *        |                           '--due--> probe      |                  |--missed--> unknown, the ticket keeps its place
 *        '---probe: not found--> free                     |                  |--declined | waiter gone--> free, ticket dropped
 *     free, and no waiter wants it ---------> unknown <---'                  '--overdue--> probe, ticket dropped
 *
 * Three more states concern operator commands: `unseen` is an unknown slot that the queue is to probe once, even if it is not wanted;
 * `draining` and `drained` are drawn at {@link Drains}.
 *
 * A claim made on a turn starts a permit that is watched from its start. So an offered slot needs no answer: the next message about it
 * is `closing`. If no message comes in time, a probe finds out whether the slot is held.
 *
 * This class hands each event to the part that it concerns, and goes through the slots to see what each needs now. The {@link SlotTable} and
 * the {@link Line} are the memory. {@link Admission} takes tickets in and out, {@link Offers} gives turns, {@link PermitWatch} finds out
 * what is held, {@link Drains} keep slots out of use, and {@link Preemption} makes holders give way.
 *
 * Invariants. They hold once {@link next} has returned all its commands, and the model test checks them there, after each event:
 *
 * - **Q1** A ticket has at most one turn.
 * - **Q2** No wanted slot idles as free or unknown: it is held, offered, under a probe, or claimed by the queue itself.
 * - **Q3** A free slot goes to the first in turn order of the eligible waiters that have no turn, unless it is reserved for an accumulator.
 *   Silent waiters come last.
 * - **Q4** to **Q6** see {@link Preemption}.
 * - **Q7** No waiter is in line that wants more permits in all than the capacity that an operator has set.
 * - **Q8** A ticket with `givesWay` gets no turn once the queue knows that a waiter of a better priority waits for a permit that the
 *   ticket's caller keeps.
 * - **Q9** If a newcomer with `whenFull: 'drop-oldest'` makes the line longer than its `maxWaiting`, the queue drops only tickets with the
 *   same `whenFull` and without a turn. The newcomer is one of them. The lowest priority goes first, and of equals the oldest (`sinceMs`).
 *   The queue stops when the newcomer's `maxWaiting` holds, or when no other ticket goes before the newcomer. If the newcomer itself goes
 *   first, it alone is dropped. A ticket whose waiter was beaten at its turn counts as a newcomer. While a ticket is in doubt, the line may
 *   be too long for it.
 */
export class QueueState {
  private readonly slots: SlotTable;
  /** Which tickets are in line. It may be out of date on which of them have turns: to ask for that, use {@link line}. */
  private readonly unsettledLine: Line;
  private readonly inUse: InUse;
  private readonly rollCall: RollCall;
  private readonly wanted: Wanted;
  private readonly offers: Offers;
  private readonly admission: Admission;
  private readonly drains: Drains;
  private readonly preemption: Preemption;
  private readonly watch: PermitWatch;

  constructor(view?: QueueView) {
    const timeouts = new OfferTimeouts((isOf) => line.resort(isOf));
    const line = new Line((ticket) => timeouts.isSilent(waiterOf(ticket)), view);
    this.slots = new SlotTable(view?.slots);
    this.unsettledLine = line;
    this.inUse = new InUse(view?.override);
    this.rollCall = new RollCall(view?.calledAtMs);
    this.wanted = new Wanted(line, this.inUse);
    this.offers = new Offers(this.slots, line, timeouts, this.inUse, this.wanted);
    this.admission = new Admission(this.slots, line, this.offers, timeouts, this.inUse, this.rollCall);
    this.drains = new Drains(this.slots, this.inUse, this.wanted);
    this.preemption = new Preemption(this.slots, this.inUse);
    this.watch = new PermitWatch(this.slots, this.offers, timeouts, this.drains, this.preemption);
  }

  // --- What waiters say ---

  /**
   * Adds a ticket to the line, or replaces the ticket with the same ID. Returns `false` if the ticket is not in line: the line is full, or
   * longer than the ticket allows, or the waiter wants more permits than the capacity that an operator has set. `true` is not final: a
   * ticket in doubt may be refused by a later {@link next} (Q9).
   *
   * @param nowMs when the ticket arrives. The default, when its acquire began, is for callers without a clock, such as tests
   */
  enqueue(ticket: Ticket, nowMs = ticket.sinceMs): boolean {
    return this.admission.enqueue(ticket, nowMs);
  }

  /**
   * The waiter claimed the slot of its turn, and another acquirer was faster. The waiter waits on in its old place. Returns what
   * {@link enqueue} does.
   */
  missed(ticket: Ticket, slot: string, nowMs = ticket.sinceMs): boolean {
    return this.admission.missed(ticket, slot, nowMs);
  }

  /**
   * The waiter has left. If it had a turn, its slot is free again for the next waiter. Returns whether it had a turn.
   * @param runId the waiter's run. If the ticket has passed to another run meanwhile, the ticket stays
   */
  declined(ticketId: string, runId?: string): boolean {
    return this.admission.declined(ticketId, runId);
  }

  /** The signal with the turn found no Workflow, so the waiter is gone. */
  undeliverable(slot: string, ticketId: string): void {
    this.admission.undeliverable(slot, ticketId);
  }

  /** The result of `ask-waiter`: whether the waiter's Workflow still runs. */
  present(ticket: Ticket, isThere: boolean, nowMs: number): void {
    this.admission.present(ticket, isThere, nowMs);
  }

  /** Another queue reports the best priority in its line, the line of `resource`. See {@link Line.inherit}. */
  inherit(resource: string, priorityKey: number): void {
    this.unsettledLine.inherit(resource, priorityKey);
  }

  // --- What permits say ---

  /** A watched permit is about to end. */
  closing(notice: ClosingNotice): void {
    this.watch.closing(notice);
  }

  /** The result of `probe`: `held` if the `watch` signal found a permit. */
  probed(slot: string, held: boolean, nowMs: number): void {
    this.watch.probed(slot, held, nowMs);
  }

  /** A permit that received `watch` reports that it is a queue's claim, which keeps the slot out of use. */
  drained(slot: string, runId: string): void {
    this.watch.drained(slot, runId);
  }

  /** A permit that received `watch` reports that its holder has opted in to give way, and at what priority it holds. */
  preemptible(notice: PreemptibleNotice, nowMs: number): void {
    this.watch.preemptible(notice, nowMs);
  }

  /** The result of `preempt` if the permit had ended already. */
  notThere(slot: string, runId: string): void {
    this.preemption.notThere(slot, runId);
  }

  // --- What operators say, and what came of it ---

  /**
   * An operator changes which slots are in use. The queue is to probe each slot that the command names and of which it knows nothing.
   * @returns what is set now
   */
  setOverride(input: OverrideInput, nowMs: number): OverrideState {
    this.slots.lookAt(slotNames(input.slots));
    return this.inUse.set(input, nowMs);
  }

  /** Whether what an operator wants to set, and the line, fit into what one run can hand to the next. */
  canSet(input: OverrideInput): boolean {
    return this.unsettledLine.fitsBeside(input);
  }

  /** What an operator has set; `undefined` when nothing is. */
  get overridden(): OverrideState | undefined {
    return this.inUse.override;
  }

  /**
   * Whether what an operator has set is carried out: each slot that is to be out of use is held, or claimed by the queue, and no waiter has a turn
   * for a slot that was added and is not in use any more.
   */
  get isInForce(): boolean {
    return this.drains.isInForce && !this.offers.hasTurnTooMany;
  }

  /**
   * What a waiter that disagrees with the others takes the slots of the resource to be: a list or a count that lacks this slot. `undefined`
   * if there is no such waiter, or if an operator has set the capacity, and so may have added the slot.
   */
  othersOf(slot: string): Ticket['slots'] | undefined {
    return this.overridden?.capacity === undefined ? this.unsettledLine.slots.without(slot) : undefined;
  }

  /** The result of `drain`, the queue's own claim: the permit's run, or `undefined` if another acquirer was faster. */
  claimed(slot: string, runId: string | undefined, nowMs: number): void {
    this.drains.claimed(slot, runId, nowMs);
  }

  /** The permit of the queue's own claim has ended without `closing`. */
  gone(slot: string, runId: string): void {
    this.drains.gone(slot, runId);
  }

  // --- What the queue does next ---

  /**
   * What to do now: at most `room` commands. If it returns that many, more may be due. Each command is returned once: the slot or ticket
   * that it concerns is in its next state by then, and the caller reports the result with one of the methods above.
   */
  next(nowMs: number, room = Number.POSITIVE_INFINITY): QueueCommand[] {
    this.inUse.expire(nowMs);
    return atMost(room, this.moves(nowMs));
  }

  /** All that is due. The order matters: tickets leave the line first, and what is left is decided after the free slots have been given. */
  private *moves(nowMs: number): Generator<QueueCommand> {
    yield* this.admission.refuseAccumulators();
    for (const ticket of this.line.takeOutranked()) yield { do: 'give-way', ticket }; // Q8
    const round = { nowMs, preemptors: this.preemptors() };
    for (const [slot, state] of this.slots) {
      const command = this.move(slot, state, round);
      if (command) yield command;
    }
    for (const slot of this.wanted.slots()) {
      if (this.slots.get(slot).at === 'unknown') yield this.watch.probe(slot, round.preemptors); // Q2
    }
    // After the unknown slots: if there is little room, a thousand held slots must not keep a free one from being found.
    for (const [slot, { probeAtMs }] of this.slots.in('held')) {
      if (probeAtMs <= nowMs && this.wanted.isWanted(slot)) yield this.watch.probe(slot, round.preemptors);
    }
    yield* this.admission.settleDoubts(nowMs); // Q9. The free slots have been given by now, so who is left needs a place in line
    for (const ticket of this.rollCall.questions()) yield { do: 'ask-waiter', ticket };
    const preemptors = this.preemptors(); // again, since some got their turns in this round
    yield* this.preemption.moves(preemptors, nowMs, (slot) => this.watch.probe(slot, preemptors));
  }

  /** What to do with a slot of which something is known. */
  private move(slot: string, state: KnownSlot, { nowMs, preemptors }: Round): QueueCommand | undefined {
    switch (state.at) {
      case 'unseen':
        return this.watch.probe(slot, preemptors);
      case 'free':
        return this.wanted.isOutOfUse(slot) ? this.drains.claim(slot) : this.offers.give(slot, state.unheard, nowMs);
      case 'offered': {
        if (this.offers.overdueMs(slot, state) > nowMs) return undefined;
        const overdue = this.offers.overdue(state);
        return { ...this.watch.probe(slot, preemptors, overdue), overdue: true };
      }
      case 'held': {
        const isOld = state.probeAtMs + REMEMBER_HELD_MS <= nowMs || this.slots.size > MAX_SEEN;
        if (isOld && !this.wanted.isWanted(slot)) this.slots.forget(slot);
        return undefined;
      }
      case 'drained':
        return this.drains.keep(slot, state, nowMs);
      case 'probing':
      case 'draining':
        return undefined; // the result of the probe or claim is due
    }
  }

  /**
   * When to call {@link next} if no event comes first. Infinity if only an event can give it something to do: probes, claims and questions
   * under way all end with an event, and tickets in doubt wait for these.
   */
  dueMs(): number {
    let dueMs = this.inUse.endsAtMs;
    const preemptors = this.preemptors(); // first: it settles the line, by which slots are wanted
    for (const [slot, state] of this.slots) {
      if (state.at === 'offered') dueMs = Math.min(dueMs, this.offers.overdueMs(slot, state));
      if (state.at === 'held' && this.wanted.isWanted(slot)) dueMs = Math.min(dueMs, state.probeAtMs);
      if (state.at === 'drained') dueMs = Math.min(dueMs, state.renewAtMs);
    }
    return Math.min(dueMs, this.preemption.dueMs(preemptors));
  }

  // --- What the queue knows ---

  ticket(ticketId: string): Ticket | undefined {
    return this.unsettledLine.ticket(ticketId);
  }

  /** The line, brought up to date on which tickets have turns (the offered slots show it). */
  private get line(): Line {
    return this.offers.line;
  }

  /** The tickets without a turn that ask for a holder to give way. */
  private preemptors(): readonly Ticket[] {
    return [...this.line.without('preempt')];
  }

  /** Tickets without a turn whose callers keep permits of other resources. */
  inheriting(): Iterable<Ticket> {
    return this.line.without('inherits');
  }

  /** The best priority of those without a turn. Infinity when there are none. */
  get bestPriority(): number {
    return this.line.bestPriority;
  }

  /** How many wait without a turn. */
  get waitingCount(): number {
    return this.line.waitingCount;
  }

  /** The line is empty, no operator has set anything, and the queue keeps no slot out of use. */
  get idle(): boolean {
    return this.unsettledLine.isEmpty && !this.overridden && this.drains.isEmpty;
  }

  /** Whether the queue believes that a permit is watched, so that its `closing` is still to come. */
  get awaitsClosing(): boolean {
    for (const _ of this.slots.in('held')) return true;
    return false;
  }

  // --- What the next run is handed ---

  /**
   * What the constructor of the next run takes, and what the query shows. It leaves out {@link inDoubt} and {@link outranked}, which are handed on
   * separately, and what the next run learns again: which waiters are silent, and when each was last heard.
   */
  view(): QueueView {
    const {
      overridden,
      rollCall: { calledAtMs },
    } = this;
    return {
      ...this.unsettledLine.view(),
      slots: this.slots.view(),
      ...(overridden && { override: overridden }),
      ...(calledAtMs !== undefined && { calledAtMs }),
    };
  }

  /** The IDs of the tickets in line for which the line may be too long (`maxWaiting`). The next run is told with {@link doubt}. */
  get inDoubt(): string[] {
    return this.admission.inDoubt;
  }

  /** Restores {@link inDoubt} from what the last run has handed on. */
  doubt(ticketIds: readonly string[]): void {
    this.admission.doubt(ticketIds);
  }

  /** The IDs of the tickets whose waiters are to be told to give way (Q8). The next run is told with {@link outrank}. */
  get outranked(): string[] {
    return this.unsettledLine.allOutranked;
  }

  /** Restores {@link outranked} from what the last run has handed on. */
  outrank(ticketIds: readonly string[]): void {
    this.unsettledLine.outrank(ticketIds);
  }
}
