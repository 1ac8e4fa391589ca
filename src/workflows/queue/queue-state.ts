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
 * How long the queue counts a slot as held although nobody wants it, so that nobody asks. Meanwhile an empty queue stays. The
 * next waiter finds it, instead of a new queue that knows nothing and asks each second. So a line that forms and goes a
 * thousand times a day costs a holder no more signals than one that stands all day.
 */
export const HELD_UNSEEN_MS = 30 * 60_000;

/** The queue remembers so many slots. With more, it forgets the held ones that nobody wants. */
const MAX_SEEN = 2_000;

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
 * A claim made on a turn starts a permit that the queue watches from its start. So an offered slot needs no answer: the next word of it
 * is `closing`. When no word comes in time, a probe settles whether it is held.
 *
 * This class hands each event to the part that it concerns, and goes through the slots to see what each needs now. The {@link SlotTable} and
 * the {@link Line} are the memory. {@link Admission} takes tickets in and out, {@link Offers} gives turns, {@link PermitWatch} finds out
 * what is held, {@link Drains} keep slots out of use, and {@link Preemption} makes holders give way.
 *
 * Invariants, which the model test checks after each event:
 *
 * - **Q1** A ticket has at most one turn.
 * - **Q2** A wanted slot is held, offered or under a probe: none idles as free or unknown. ({@link Wanted} says which slots are.)
 * - **Q3** A slot goes to the first in turn order of the eligible waiters that have no turn.
 * - **Q4** to **Q6** see {@link Preemption}.
 * - **Q7** No waiter is in line that wants more permits than an operator has left.
 * - **Q8** No waiter that gives way gets a turn once the queue knows of a better priority behind it.
 */
export class QueueState {
  private readonly slots: SlotTable;
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
   * Takes a ticket in, or in place of the one with the same ID. `false` when the line is full, or longer than the ticket allows, or
   * when its waiter wants more permits than an operator has left.
   *
   * @param nowMs when it comes; without it, when its acquire began
   */
  enqueue(ticket: Ticket, nowMs = ticket.sinceMs): boolean {
    return this.admission.enqueue(ticket, nowMs);
  }

  /** The waiter found its slot taken. It waits on, in its old place. `false` as {@link enqueue} says it. */
  missed(ticket: Ticket, slot: string, nowMs = ticket.sinceMs): boolean {
    return this.admission.missed(ticket, slot, nowMs);
  }

  /**
   * The waiter waits no longer. The turn that it may have had goes on at once: `true` if it had one.
   * @param runId of the waiter; its ticket may have passed to the next waiter of the same acquirer, and then stays
   */
  declined(ticketId: string, runId?: string): boolean {
    return this.admission.declined(ticketId, runId);
  }

  /** The turn found no Workflow: its waiter is gone. */
  undeliverable(slot: string, ticketId: string): void {
    this.admission.undeliverable(slot, ticketId);
  }

  /** A waiter that was asked whether it is there has answered, or is gone. */
  present(ticket: Ticket, isThere: boolean, nowMs: number): void {
    this.admission.present(ticket, isThere, nowMs);
  }

  /** Somebody of this priority waits for a resource. See {@link Line.inherit}. */
  inherit(resource: string, priorityKey: number): void {
    this.unsettledLine.inherit(resource, priorityKey);
  }

  // --- What permits say ---

  /** A watched permit is about to end. */
  closing(notice: ClosingNotice): void {
    this.watch.closing(notice);
  }

  /** A probe's answer: `held` if a permit took the `watch`. */
  probed(slot: string, held: boolean, nowMs: number): void {
    this.watch.probed(slot, held, nowMs);
  }

  /** A permit that was asked says that it keeps the slot out of use. */
  drained(slot: string, runId: string): void {
    this.watch.drained(slot, runId);
  }

  /** A permit says that its holder may have to give way. */
  preemptible(notice: PreemptibleNotice, nowMs: number): void {
    this.watch.preemptible(notice, nowMs);
  }

  /** A permit that was asked to give way has ended. */
  notThere(slot: string, runId: string): void {
    this.preemption.notThere(slot, runId);
  }

  // --- What operators say, and what came of it ---

  /** An operator changes which slots are in use, and the queue is to look at each slot that the operator names. @returns what is set now */
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

  get isInForce(): boolean {
    return this.drains.isInForce;
  }

  /** The slots that some waiter takes the resource to have, where this slot is not among them and no operator has set how many there are. */
  othersOf(slot: string): Ticket['slots'] | undefined {
    return this.overridden?.capacity === undefined ? this.unsettledLine.slots.without(slot) : undefined;
  }

  /** The answer to the queue's own claim: the permit's run, or `undefined` when somebody else was faster. */
  claimed(slot: string, runId: string | undefined, nowMs: number): void {
    this.drains.claimed(slot, runId, nowMs);
  }

  /** The queue's own claim on a slot has ended without a word. */
  gone(slot: string, runId: string): void {
    this.drains.gone(slot, runId);
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
    // Last: a thousand held slots must not keep a free one from being found.
    for (const [slot, { probeAtMs }] of this.slots.in('held')) {
      if (probeAtMs <= nowMs && this.wanted.isWanted(slot)) yield this.watch.probe(slot, round.preemptors);
    }
    yield* this.admission.settleDoubts(nowMs); // what is free has been given by now
    for (const ticket of this.rollCall.questions()) yield { do: 'ask-waiter', ticket };
    const preemptors = this.preemptors(); // some have their turn now
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
        const isOld = state.probeAtMs + HELD_UNSEEN_MS <= nowMs || this.slots.size > MAX_SEEN;
        if (isOld && !this.wanted.isWanted(slot)) this.slots.forget(slot);
        return undefined;
      }
      case 'drained':
        return this.drains.keep(slot, state, nowMs);
      case 'probing':
      case 'draining':
        return undefined; // an answer is due
    }
  }

  /** When {@link next} has something to do although nothing happens. Infinity when it has not. */
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

  /** The line, when it knows which tickets have turns. */
  private get line(): Line {
    return this.offers.line;
  }

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

  /** Somebody is to be told to give way. The next run of the queue would not know. */
  get hasOutranked(): boolean {
    return this.unsettledLine.hasOutranked;
  }

  /** Nobody waits, nothing is set, and no slot is kept out of use. */
  get idle(): boolean {
    return this.unsettledLine.isEmpty && !this.overridden && this.drains.isEmpty;
  }

  /** Whether a permit that runs will tell when it closes. */
  get awaitsClosing(): boolean {
    for (const _ of this.slots.in('held')) return true;
    return false;
  }

  // --- What the next run is handed ---

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

  /** The tickets that may be beyond their bound on the line. The next run is told with {@link doubt}. */
  get inDoubt(): string[] {
    return this.admission.inDoubt;
  }

  /** The last run hands these tickets on as {@link inDoubt}. */
  doubt(ticketIds: readonly string[]): void {
    this.admission.doubt(ticketIds);
  }
}
