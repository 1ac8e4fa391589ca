import type { Ticket } from '../../shared/protocol';
import type { QueueView, SlotState } from '../../shared/queue-view';
import { wantsSlot } from '../../shared/slots';
import { priorityOf, TurnOrder } from '../../shared/turn-order';
import { Demand } from './demand';
import { probeAfterMs } from './probe-interval';
import { atMost, type QueueCommand } from './queue-command';
import { Tickets } from './tickets';

/** After this time without a word of a turn, the queue takes it for used, or its waiter for dead. */
export const OFFER_TIMEOUT_MS = 5_000;

/** … and after this time where others wait for the slot. It grows up to the former where waiters that are slow turn out to live. */
export const PATIENCE_MS = 1_000;

/** At most so many waiters have a turn for one slot at once. */
const MAX_TURNS = 16;

/** The queue remembers so many waiters that have let a turn pass. */
const MAX_SILENT = 2_000;

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

/**
 * The waiters, the slots, and so what the queue does next. Pure: each event comes in by a method of its own, the clock as
 * `nowMs`, and {@link next} says what to do. The queue never grants a permit. A turn says "this slot looks free", and the
 * claim decides. A wrong guess here costs time, never safety.
 *
 *     unknown --probe: delivered--> held --closing--> free --turn sent--> offered --closing--> free
 *        |                           '--due--> probe      |                  |--missed--> unknown, the ticket keeps its place
 *        '---probe: not found--> free                     |                  |--declined | waiter gone--> free, ticket dropped
 *     free, and nobody wants it ------------> unknown <---'                  '--overdue--> probe, ticket dropped
 *
 * An unknown slot has no state. A claim made on a turn starts a permit that the queue watches from its start. So an offered
 * slot needs no answer: the next word of it is `closing`. When no word comes in time, a probe settles whether it is held.
 *
 * Invariants, which the model test checks after each event:
 *
 * - **Q1** A ticket has at most one turn.
 * - **Q2** A wanted slot is held, offered, or under a probe: none idles as free or unknown.
 * - **Q3** A slot goes to the first in turn order of those that want it and have no turn.
 */
export class QueueState {
  protected readonly tickets = new Tickets();
  protected readonly slots: Map<string, SlotState>;
  private readonly order: TurnOrder;
  /** The run whose `closing` came last. A permit may say it twice. */
  protected readonly lastClosed = new Map<string, string>();
  /** Who has let a turn pass, and has not been heard of since: a client by its identity, or a Workflow. */
  private readonly silent = new Set<string>();
  /** Of whom a probe will tell that. */
  private readonly doubted = new Set<string>();
  private patienceMs = PATIENCE_MS;

  constructor(view?: QueueView) {
    for (const ticket of view?.tickets ?? []) if (this.tickets.hasRoomFor(ticket)) this.tickets.set(ticket.id, ticket);
    this.slots = new Map(view?.slots);
    this.order = new TurnOrder(view?.shares);
  }

  /**
   * Takes a ticket in, or in place of the one with the same ID. `false` when the queue is full.
   * @param _hadTurn its waiter stood in line, although the queue may have taken it for gone since
   */
  enqueue(ticket: Ticket, _hadTurn = false): boolean {
    const known = this.tickets.get(ticket.id);
    if (!this.tickets.hasRoomFor(ticket)) return false;
    if (known?.waiter.runId !== ticket.waiter.runId) this.heardOf(ticket);
    if (known && known.waiter.runId !== ticket.waiter.runId) this.withdrawFrom(known, 'unknown'); // the next waiter of one acquirer
    this.tickets.set(ticket.id, ticket);
    if (known?.inherits) this.raise(ticket, priorityOf(known));
    if (ticket.kept && !known) this.served(ticket);
    return true;
  }

  /** Somebody of this priority waits for a resource. Those who keep a permit of it while they wait here pass it on. */
  inherit(resource: string, priorityKey: number): void {
    for (const ticket of this.tickets.values())
      if (ticket.inherits?.includes(resource)) this.raise(ticket, priorityKey);
  }

  private raise(ticket: Ticket, priorityKey: number): void {
    if (priorityKey < priorityOf(ticket)) this.tickets.set(ticket.id, { ...ticket, priorityKey });
  }

  ticket(ticketId: string): Ticket | undefined {
    return this.tickets.get(ticketId);
  }

  /** The waiter found its slot taken. It waits on, in its old place. `false` as {@link enqueue} says it. */
  missed(ticket: Ticket, slot: string): boolean {
    if (this.heardOf(ticket)) this.patienceMs = Math.min(OFFER_TIMEOUT_MS, 2 * this.patienceMs); // it is slow
    if (this.isOfferedTo(slot, ticket.id)) {
      this.wasInTime();
      this.withdraw(slot, ticket, 'unknown');
      this.endReservations();
    }
    return this.enqueue(ticket, true);
  }

  /**
   * The waiter waits no longer. The turn that it may have had goes on at once: `true` if it had one.
   * @param runId of the waiter; its ticket may have passed to the next waiter of the same acquirer, and then stays
   */
  declined(ticketId: string, runId?: string): boolean {
    const ticket = this.tickets.get(ticketId);
    if (!ticket || (runId !== undefined && ticket.waiter.runId !== undefined && ticket.waiter.runId !== runId))
      return false;
    this.heardOf(ticket);
    const hadTurn = this.withdrawFrom(ticket, 'free');
    this.tickets.delete(ticketId);
    return hadTurn;
  }

  /** The turn found no Workflow: its waiter is gone. */
  undeliverable(slot: string, ticketId: string): void {
    if (this.isOfferedTo(slot, ticketId)) this.declined(ticketId);
  }

  /** A watched permit is about to end. */
  closing(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (!state || this.lastClosed.get(slot) === runId) return;
    this.lastClosed.delete(slot);
    this.lastClosed.set(slot, runId);
    const [oldest] = this.lastClosed.keys();
    if (this.lastClosed.size > MAX_CLOSED && oldest !== undefined) this.lastClosed.delete(oldest);
    this.close(slot, state, runId);
  }

  protected close(slot: string, state: SlotState, _runId: string): void {
    if (state.at === 'offered') {
      this.dropTicket(state); // it was served, and is done already
      this.wasInTime();
    }
    // The probe's answer may be older than this news, so it must not overrule it.
    if (state.at === 'probing') this.slots.set(slot, { ...state, closed: true });
    else this.slots.set(slot, { at: 'free' });
  }

  /** A probe's answer: `held` if a permit took the `watch`. */
  probed(slot: string, held: boolean, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state?.at !== 'probing') return;
    const { overdue } = state;
    if (!held || state.closed) {
      const isUnheard = overdue && !state.closed;
      if (isUnheard && this.doubted.delete(overdue.waiter)) this.fellSilent(overdue.waiter);
      this.slots.set(slot, isUnheard ? { at: 'free', unheard: overdue.turns } : { at: 'free' });
      return;
    }
    if (overdue) this.doubted.delete(overdue.waiter);
    const sinceMs = state.heldSinceMs ?? nowMs;
    // A turn that was used a second ago has a permit that knows its queue. So there is no haste.
    const afterMs = overdue ? OFFER_TIMEOUT_MS : probeAfterMs(nowMs - sinceMs, this.slots.size);
    this.slots.set(slot, { at: 'held', sinceMs, probeAtMs: nowMs + afterMs });
  }

  /** The ticket's waiter lives. @returns whether it was taken for dead */
  private heardOf(ticket: Ticket): boolean {
    const wasDoubted = this.doubted.delete(whoOf(ticket));
    return this.silent.delete(whoOf(ticket)) || wasDoubted;
  }

  private fellSilent(waiter: string): void {
    this.silent.add(waiter);
    const [oldest] = this.silent;
    if (this.silent.size > MAX_SILENT && oldest !== undefined) this.silent.delete(oldest);
  }

  private wasInTime(): void {
    this.patienceMs = Math.max(PATIENCE_MS, 0.9 * this.patienceMs);
  }

  /**
   * What to do now: at most `room` commands. When it gives that many, more may be due. Each call moves the slots concerned on,
   * so it gives a command once.
   */
  next(nowMs: number, room = Number.POSITIVE_INFINITY): QueueCommand[] {
    return atMost(room, this.moves(nowMs));
  }

  protected *moves(nowMs: number): Generator<QueueCommand> {
    const waiting = new Set(this.waiting());
    const demand = new Demand(waiting);
    for (const [slot, state] of this.slots) {
      const command = this.moveOn(slot, state, waiting, demand, nowMs);
      if (command) yield command;
    }
    for (const slot of this.slotsOfInterest(demand)) if (!this.slots.has(slot)) yield this.probe(slot); // Q2
    for (const [slot, state] of this.slots) {
      // Last: a thousand held slots must not keep a free one from being found.
      if (state.at === 'held' && state.probeAtMs <= nowMs && this.isOfInterest(slot, demand)) yield this.probe(slot);
    }
  }

  /** When {@link next} has something to do although nothing happens. Infinity when it has not. */
  dueMs(): number {
    let dueMs = Number.POSITIVE_INFINITY;
    const demand = new Demand(this.waiting());
    for (const [slot, state] of this.slots) {
      if (state.at === 'offered') dueMs = Math.min(dueMs, this.overdueMs(slot, state, demand));
      if (state.at === 'held' && this.isOfInterest(slot, demand)) dueMs = Math.min(dueMs, state.probeAtMs);
    }
    return dueMs;
  }

  /** How many wait without a turn. */
  get waitingCount(): number {
    return [...this.waiting()].length;
  }

  /** Nobody waits. */
  get idle(): boolean {
    return this.tickets.size === 0;
  }

  /** Whether a permit that runs will tell when it closes. */
  get awaitsClosing(): boolean {
    for (const { at } of this.slots.values()) if (at === 'held') return true;
    return false;
  }

  view(): QueueView {
    return { tickets: [...this.tickets.values()], slots: [...this.slots], shares: this.order.shares() };
  }

  /** What to do with a slot of which something is known. */
  protected moveOn(
    slot: string,
    state: SlotState,
    waiting: Set<Ticket>,
    demand: Demand,
    nowMs: number,
  ): QueueCommand | undefined {
    if (state.at === 'free') return this.offer(slot, state.unheard, waiting, demand, nowMs);
    if (state.at === 'offered' && this.overdueMs(slot, state, demand) <= nowMs) {
      // Used without a word, or the waiter is dead or slow. A probe will tell, and a live waiter comes again by itself.
      const ticket = this.tickets.get(state.ticketId);
      const overdue = { turns: state.turns ?? 1, waiter: ticket ? whoOf(ticket) : '' };
      if (ticket) this.doubted.add(overdue.waiter);
      this.dropTicket(state);
      const command = this.probe(slot);
      const probing = this.slots.get(slot);
      if (probing?.at === 'probing' && !state.reserved) this.slots.set(slot, { ...probing, overdue });
      return { ...command, overdue: true };
    }
    const isOld = state.at === 'held' && (state.probeAtMs + HELD_UNSEEN_MS <= nowMs || this.slots.size > MAX_SEEN);
    if (isOld && !this.isOfInterest(slot, demand)) this.slots.delete(slot);
    return undefined;
  }

  /** Only where somebody else wants the slot, it matters soon. */
  private overdueMs(slot: string, { untilMs }: SlotState & { at: 'offered' }, demand: Demand): number {
    return this.isOfInterest(slot, demand) ? untilMs - OFFER_TIMEOUT_MS + this.patienceMs : untilMs;
  }

  /**
   * Gives a free slot to the first in turn order. A free slot without a taker is forgotten: a newcomer may take it unseen. Where the
   * last turns brought no word, it gives twice as many: their tickets leave the line, and those that live and are beaten come back.
   */
  protected offer(
    slot: string,
    unheard: number | undefined,
    waiting: Set<Ticket>,
    demand: Demand,
    nowMs: number,
  ): QueueCommand | undefined {
    const accumulating = this.accumulatingOn(slot);
    if (accumulating) {
      this.slots.set(slot, { at: 'offered', ...accumulating, reserved: true });
      return undefined;
    }
    const ticket = this.takeFirst(slot, waiting, demand); // Q3
    if (!ticket) {
      this.slots.delete(slot);
      return undefined;
    }
    this.order.charge(ticket);
    const offered = { at: 'offered', ticketId: ticket.id, untilMs: nowMs + OFFER_TIMEOUT_MS } as const;
    this.slots.set(slot, offered);
    if (unheard === undefined) return { do: 'offer', slot, ticket };
    const also: Ticket[] = [];
    while (also.length + 1 < Math.min(2 * unheard, MAX_TURNS)) {
      const next = this.takeFirst(slot, waiting, demand);
      if (!next) break;
      also.push(next);
      this.tickets.delete(next.id);
    }
    this.slots.set(slot, { ...offered, turns: 1 + also.length });
    return { do: 'offer', slot, ticket, also };
  }

  /** Those come last that have let a turn pass. */
  private takeFirst(slot: string, waiting: Set<Ticket>, demand: Demand): Ticket | undefined {
    if (!this.isOfInterest(slot, demand)) return undefined;
    const answers = (ticket: Ticket) => !this.silent.has(whoOf(ticket));
    const first = this.silent.size > 0 ? this.order.first([...this.wanting(slot, waiting)].filter(answers)) : undefined;
    const ticket = first ?? this.order.first(this.wanting(slot, waiting));
    if (!ticket) return undefined;
    waiting.delete(ticket); // Q1
    demand.remove(ticket);
    return ticket;
  }

  /** Slots that somebody without a turn wants, and others that must be looked at. */
  protected slotsOfInterest(demand: Demand): Iterable<string> {
    return demand.slots();
  }

  protected isOfInterest(slot: string, demand: Demand): boolean {
    return demand.has(slot);
  }

  protected wants(ticket: Ticket, slot: string): boolean {
    return wantsSlot(ticket.slots, slot);
  }

  /** Tickets without a turn. */
  *waiting(): Generator<Ticket> {
    const offered = new Set<string>();
    for (const state of this.slots.values()) if (state.at === 'offered') offered.add(state.ticketId);
    for (const ticket of this.tickets.values()) if (!offered.has(ticket.id)) yield ticket;
  }

  /**
   * The accumulator's turn that is under way, if it would take this slot after it: until its next ticket comes, in a moment, the slot
   * is not for those behind it. They would use it while the accumulator keeps the others for nothing.
   */
  private accumulatingOn(slot: string): { ticketId: string; untilMs: number } | undefined {
    if (this.tickets.accumulating === 0) return undefined;
    const taken = new Map<string, number>();
    for (const state of this.slots.values()) {
      if (state.at === 'offered') taken.set(state.ticketId, (taken.get(state.ticketId) ?? 0) + 1);
    }
    for (const state of this.slots.values()) {
      const ticket = state.at === 'offered' && !state.reserved ? this.tickets.get(state.ticketId) : undefined;
      if (state.at !== 'offered' || !ticket || !this.wants(ticket, slot)) continue;
      const { id, permits = 1, kept = permits } = ticket;
      if ((taken.get(id) ?? 0) < permits - kept) return { ticketId: id, untilMs: state.untilMs };
    }
    return undefined;
  }

  /** An accumulator that lines up for its next permit has used its turn before. There is one at a time. */
  private served(next: Ticket): void {
    for (const state of this.slots.values()) {
      if (state.at !== 'offered' || state.ticketId === next.id) continue;
      if (this.tickets.get(state.ticketId)?.permits) this.tickets.delete(state.ticketId);
    }
    this.endReservations();
  }

  /** The turn was used, or its waiter is dead or slow. */
  protected dropTicket({ ticketId, reserved }: SlotState & { at: 'offered' }): void {
    if (!reserved) this.tickets.delete(ticketId);
  }

  private endReservations(): void {
    for (const [slot, state] of this.slots) {
      if (state.at === 'offered' && state.reserved) this.slots.set(slot, { at: 'free' });
    }
  }

  private *wanting(slot: string, tickets: Iterable<Ticket>): Generator<Ticket> {
    for (const ticket of tickets) if (this.wants(ticket, slot)) yield ticket;
  }

  protected probe(slot: string): QueueCommand & { do: 'probe' } {
    const state = this.slots.get(slot);
    this.lastClosed.delete(slot); // a permit that is asked while it ends says it once more, and that is news
    this.slots.set(slot, { at: 'probing', heldSinceMs: state?.at === 'held' ? state.sinceMs : undefined });
    return { do: 'probe', slot };
  }

  /** Takes back the turn that the ticket may have: `true` if it had one. */
  private withdrawFrom(ticket: Ticket, to: 'free' | 'unknown'): boolean {
    const turns = [...this.slots.keys()].filter((slot) => this.isOfferedTo(slot, ticket.id));
    for (const slot of turns) this.withdraw(slot, ticket, to);
    return turns.length > 0;
  }

  private withdraw(slot: string, ticket: Ticket, to: 'free' | 'unknown'): void {
    const state = this.slots.get(slot);
    if (state?.at === 'offered' && !state.reserved) this.order.refund(ticket);
    if (to === 'free') this.slots.set(slot, { at: 'free' });
    else this.slots.delete(slot);
  }

  private isOfferedTo(slot: string, ticketId: string): boolean {
    const state = this.slots.get(slot);
    return state?.at === 'offered' && state.ticketId === ticketId;
  }
}

function whoOf({ identity, waiter }: Ticket): string {
  return identity ?? waiter.workflowId;
}
