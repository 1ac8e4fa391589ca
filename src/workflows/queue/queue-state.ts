import type { OverrideInput, OverrideState, QueueView, SlotState, Ticket } from '../../shared/protocol';
import { TurnOrder } from '../../shared/turn-order';
import { CapacityOverride } from './capacity-override';
import { Demand } from './demand';
import { Tickets } from './tickets';

/**
 * What the queue is to send: a `watch` that asks whether the slot is held, or a turn. Or what it is to do with a slot that
 * an operator has taken out of use: claim it, and renew or release that claim.
 */
export type QueueCommand =
  | { do: 'probe'; slot: string; overdue?: true } // after a turn that brought no word
  | { do: 'offer'; slot: string; ticket: Ticket }
  | { do: 'drain'; slot: string }
  | { do: 'renew'; slot: string; runId: string }
  | { do: 'release'; slot: string; runId: string };

/** How long a waiter may take to use its turn before the next one gets it. */
export const OFFER_TIMEOUT_MS = 5_000;

/**
 * A held slot is asked about again after an eighth of the time it has been held, but within these bounds: a permit that
 * was terminated could not say that it closed. Every question is an event and a signal to the permit, which may take only
 * 10,000 of them in its life; this makes it 1,500 a day.
 */
const PROBE_AFTER_MS = { least: 1_000, most: 60_000 };

/** How often the queue renews its claim on a slot that is out of use, and so finds out that somebody has terminated it. */
export const DRAIN_RENEWAL_MS = 20 * 60_000;

/**
 * How long a slot that nobody wants counts as held without being asked about. While one does, an empty queue stays: the
 * next waiter finds it, instead of starting one that knows nothing and asks the permit each second again. A line that
 * forms and goes a thousand times a day so costs a holder no more of its 10,000 signals than one that stands all day.
 */
export const HELD_UNSEEN_MS = 30 * 60_000;

/** Permits of which we remember that they closed. */
const MAX_CLOSED = 2_000;

/**
 * Who waits, what each slot is doing, and so what the queue is to do next. A slot of which nothing is known is not kept. Pure: what has happened comes in by one method
 * each, the clock as `nowMs`, and {@link next} says what to send. It never grants a permit: a turn only says "slot s looks
 * free", and the claim decides. A wrong guess here costs time, never safety.
 *
 *     unknown --probe: delivered--> held --closing--> free --turn sent--> offered --closing--> free
 *        |                           '--due--> probe      |                  |--missed--> unknown, the ticket keeps its place
 *        '---probe: not found--> free                     |                  |--declined | waiter gone--> free, ticket dropped
 *     free, and nobody wants it ------------> unknown <---'                  '--overdue--> unknown, ticket dropped
 *
 * A slot that an operator has taken out of use (too many, or paused) is claimed instead of offered, and watched like any:
 *
 *     free --claim sent--> draining --started--> drained --in use again: release sent--> held
 *                              '--taken--> unknown  '--closing | gone--> free
 *
 * A claim made on a turn starts a permit that is watched from birth, so an offered slot needs no answer: the next thing
 * heard of it is `closing`. If nothing is heard in time, a probe settles whether it is held.
 */
export class QueueState {
  private readonly tickets = new Tickets();
  private readonly slots: Map<string, SlotState>;
  private readonly order: TurnOrder;
  private readonly override: CapacityOverride;
  /** The run whose `closing` was heard last: it may say so twice. */
  private readonly lastClosed = new Map<string, string>();

  constructor(view?: QueueView) {
    for (const ticket of view?.tickets ?? []) this.tickets.set(ticket.id, ticket);
    this.slots = new Map(view?.slots);
    this.order = new TurnOrder(view?.shares);
    this.override = new CapacityOverride(view?.override);
  }

  /** Takes a ticket in, or in place of the one of the same ID. `false` when the queue is full. */
  enqueue(ticket: Ticket): boolean {
    if (!this.tickets.hasRoomFor(ticket)) return false;
    const known = this.tickets.get(ticket.id);
    if (known && known.waiter.runId !== ticket.waiter.runId) this.withdrawFrom(known, 'unknown'); // the next waiter of one acquirer
    this.tickets.set(ticket.id, ticket);
    return true;
  }

  ticket(ticketId: string): Ticket | undefined {
    return this.tickets.get(ticketId);
  }

  /** The waiter found its slot taken. It waits on, in its old place. `false` as {@link enqueue} says it. */
  missed(ticket: Ticket, slot: string): boolean {
    if (this.isOfferedTo(slot, ticket.id)) this.withdraw(slot, ticket, 'unknown');
    return this.enqueue(ticket);
  }

  /** The waiter waits no longer. The turn that it may have had goes on at once: `true` if it had one. */
  declined(ticketId: string): boolean {
    const ticket = this.tickets.get(ticketId);
    if (!ticket) return false;
    const hadTurn = this.withdrawFrom(ticket, 'free');
    this.tickets.delete(ticketId);
    return hadTurn;
  }

  /** A watched permit is about to end. */
  closing(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (!state || this.lastClosed.get(slot) === runId) return;
    this.hasClosed(slot, runId);
    if (state.at === 'offered') this.tickets.delete(state.ticketId); // it was served, and is done already
    // The answer to what is under way may be older than this news, so it must not overrule it.
    if (state.at === 'probing') this.slots.set(slot, { ...state, closed: true });
    else if (state.at === 'draining') state.closed.push(runId);
    // Old news, or ours has ended without a word: a renewal tells.
    else if (state.at === 'drained' && state.runId !== runId) this.slots.set(slot, { ...state, renewAtMs: 0 });
    else this.slots.set(slot, { at: 'free' });
  }

  /** A probe's answer: `held` if a permit took the `watch`. */
  probed(slot: string, held: boolean, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state?.at !== 'probing') return;
    if (!held || state.closed) {
      this.slots.set(slot, { at: 'free' });
      return;
    }
    const sinceMs = state.heldSinceMs ?? nowMs;
    const waitMs = Math.min(PROBE_AFTER_MS.most, Math.max(PROBE_AFTER_MS.least, (nowMs - sinceMs) / 8));
    this.slots.set(slot, { at: 'held', sinceMs, probeAtMs: nowMs + waitMs });
  }

  /** The turn found no Workflow: its waiter is gone. */
  undeliverable(slot: string, ticketId: string): void {
    if (this.isOfferedTo(slot, ticketId)) this.declined(ticketId);
  }

  /** What an operator has set; `undefined` when nothing is. */
  get overridden(): OverrideState | undefined {
    return this.override.current;
  }

  /** An operator changes which slots are in use. @returns what is set now */
  setOverride(input: OverrideInput, nowMs: number): OverrideState {
    return this.override.change(input, nowMs);
  }

  /** A claim's answer: the permit's run, or `undefined` when somebody else was faster. */
  claimed(slot: string, runId: string | undefined, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state?.at !== 'draining') return;
    if (runId === undefined) this.slots.delete(slot);
    else if (state.closed.includes(runId)) this.slots.set(slot, { at: 'free' });
    else this.slots.set(slot, { at: 'drained', runId, renewAtMs: nowMs + DRAIN_RENEWAL_MS });
  }

  /** Our own claim on a slot has ended without a word: it was terminated. */
  gone(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if ((state?.at === 'drained' || state?.at === 'held') && state.runId === runId)
      this.slots.set(slot, { at: 'free' });
  }

  /**
   * What to send now, at most `room` messages: more are due until it gives fewer. Each call moves the slots concerned on, so a
   * command is given once.
   */
  next(nowMs: number, room = Number.POSITIVE_INFINITY): QueueCommand[] {
    const commands: QueueCommand[] = [];
    const waiting = new Set(this.waiting());
    const demand = new Demand(waiting);
    for (const [slot, state] of this.slots) {
      if (commands.length >= room) return commands;
      const command = this.moveOn(slot, state, waiting, demand, nowMs);
      if (command) commands.push(command);
    }
    for (const slot of this.unknownSlots(demand)) {
      if (commands.length >= room) return commands;
      commands.push(this.probe(slot));
    }
    return commands;
  }

  /** When {@link next} has something to say although nothing happens. Infinity when it has not. */
  dueMs(): number {
    let dueMs = Number.POSITIVE_INFINITY;
    const demand = new Demand(this.waiting());
    for (const [slot, state] of this.slots) {
      if (state.at === 'offered') dueMs = Math.min(dueMs, state.untilMs);
      if (state.at === 'drained') dueMs = Math.min(dueMs, state.renewAtMs);
      if (state.at === 'held' && this.isOfInterest(slot, demand)) dueMs = Math.min(dueMs, state.probeAtMs);
    }
    return dueMs;
  }

  /** How many wait without a turn. */
  get waitingCount(): number {
    return [...this.waiting()].length;
  }

  /** Nobody waits, nothing is set, and no slot is kept out of use. */
  get idle(): boolean {
    if (this.tickets.size > 0 || this.override.current) return false;
    for (const { at } of this.slots.values()) if (at === 'draining' || at === 'drained') return false;
    return true;
  }

  /** Whether a permit that runs will tell when it closes. */
  get awaitsClosing(): boolean {
    for (const { at } of this.slots.values()) if (at === 'held') return true;
    return false;
  }

  view(): QueueView {
    const { current: override } = this.override;
    const slots = [...this.slots];
    return { tickets: [...this.tickets.values()], slots, shares: this.order.shares(), ...(override && { override }) };
  }

  /** Tickets without a turn. */
  private *waiting(): Generator<Ticket> {
    const offered = new Set<string>();
    for (const state of this.slots.values()) if (state.at === 'offered') offered.add(state.ticketId);
    for (const ticket of this.tickets.values()) if (!offered.has(ticket.id)) yield ticket;
  }

  /** What to do with a slot of which something is known. */
  private moveOn(
    slot: string,
    state: SlotState,
    waiting: Set<Ticket>,
    demand: Demand,
    nowMs: number,
  ): QueueCommand | undefined {
    switch (state.at) {
      case 'free':
        return this.use(slot, waiting, demand, nowMs);
      case 'drained':
        return this.keep(slot, state, nowMs);
      case 'offered':
        if (state.untilMs > nowMs) return undefined;
        // Used without a word, or the waiter is dead or slow: a probe will tell, and a live waiter comes again by itself.
        this.tickets.delete(state.ticketId);
        return { ...this.probe(slot), overdue: true };
      case 'held':
        if (state.probeAtMs > nowMs) return undefined;
        if (this.isOfInterest(slot, demand)) return this.probe(slot);
        if (state.probeAtMs + HELD_UNSEEN_MS <= nowMs) this.slots.delete(slot);
    }
    return undefined;
  }

  /** Those that somebody waits for, or that are to be drained. */
  private unknownSlots(demand: Demand): string[] {
    const ofInterest = demand.slots();
    if (this.override.current) {
      for (const slot of [...this.override.slots(), ...this.tickets.demand.slots()]) ofInterest.add(slot);
    }
    return [...ofInterest].filter((slot) => !this.slots.has(slot) && this.isOfInterest(slot, demand));
  }

  /** Whether somebody waits for it, or it is to be drained. */
  private isOfInterest(slot: string, demand: Demand): boolean {
    if (!this.override.isInUse(slot)) return this.isToDrain(slot);
    return demand.has(slot) || (demand.counts && this.override.isAdded(slot));
  }

  /** Of the slots out of use, those that somebody may try: where only the queue would offer it, it just does not. */
  private isToDrain(slot: string): boolean {
    return !this.override.isInUse(slot) && (this.override.isDeployed(slot) || this.tickets.demand.has(slot));
  }

  /** What to do with a free slot. */
  private use(slot: string, waiting: Set<Ticket>, demand: Demand, nowMs: number): QueueCommand | undefined {
    if (this.override.isInUse(slot)) return this.offer(slot, waiting, demand, nowMs);
    if (!this.isToDrain(slot)) {
      this.slots.delete(slot);
      return undefined;
    }
    this.slots.set(slot, { at: 'draining', closed: [] });
    return { do: 'drain', slot };
  }

  /** What to do with a slot that is drained. Its release is followed like anybody's. */
  private keep(slot: string, state: SlotState & { at: 'drained' }, nowMs: number): QueueCommand | undefined {
    const { runId, renewAtMs } = state;
    if (this.override.isInUse(slot)) {
      this.slots.set(slot, { at: 'held', sinceMs: nowMs, probeAtMs: nowMs + PROBE_AFTER_MS.least, runId });
      return { do: 'release', slot, runId };
    }
    if (renewAtMs > nowMs) return undefined;
    this.slots.set(slot, { ...state, renewAtMs: nowMs + DRAIN_RENEWAL_MS });
    return { do: 'renew', slot, runId };
  }

  /** Gives a free slot to whose turn it is. Free with no taker is worth nothing later: a newcomer may take it unseen. */
  private offer(slot: string, waiting: Set<Ticket>, demand: Demand, nowMs: number): QueueCommand | undefined {
    const ticket = this.isOfInterest(slot, demand) ? this.order.first(this.wanting(slot, waiting)) : undefined;
    if (!ticket) {
      this.slots.delete(slot);
      return undefined;
    }
    waiting.delete(ticket);
    demand.remove(ticket);
    this.order.charge(ticket);
    this.slots.set(slot, { at: 'offered', ticketId: ticket.id, untilMs: nowMs + OFFER_TIMEOUT_MS });
    return { do: 'offer', slot, ticket };
  }

  private hasClosed(slot: string, runId: string): void {
    this.lastClosed.delete(slot);
    this.lastClosed.set(slot, runId);
    for (const oldest of this.lastClosed.keys()) {
      if (this.lastClosed.size <= MAX_CLOSED) return;
      this.lastClosed.delete(oldest);
    }
  }

  private probe(slot: string): QueueCommand & { do: 'probe' } {
    const state = this.slots.get(slot);
    this.slots.set(slot, { at: 'probing', heldSinceMs: state?.at === 'held' ? state.sinceMs : undefined });
    return { do: 'probe', slot };
  }

  /** Takes back the turn that it may have: `true` if it had one. */
  private withdrawFrom(ticket: Ticket, to: 'free' | 'unknown'): boolean {
    const turns = [...this.slots.keys()].filter((slot) => this.isOfferedTo(slot, ticket.id));
    for (const slot of turns) this.withdraw(slot, ticket, to);
    return turns.length > 0;
  }

  private withdraw(slot: string, ticket: Ticket, to: 'free' | 'unknown'): void {
    this.order.refund(ticket);
    if (to === 'free') this.slots.set(slot, { at: 'free' });
    else this.slots.delete(slot);
  }

  private isOfferedTo(slot: string, ticketId: string): boolean {
    const state = this.slots.get(slot);
    return state?.at === 'offered' && state.ticketId === ticketId;
  }

  private *wanting(slot: string, tickets: Iterable<Ticket>): Generator<Ticket> {
    for (const ticket of tickets) if (this.override.wants(ticket, slot)) yield ticket;
  }
}
