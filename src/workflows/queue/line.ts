import { priorityOf } from '../../shared/priority';
import type { OverrideInput, OverrideState, QueueView, Ticket } from '../../shared/protocol';
import { rowBytes } from '../../shared/ticket-rows';
import { TurnOrder } from '../../shared/turn-order';
import { byteLength } from '../../shared/utf8';
import { TicketSlots } from './ticket-slots';
import { TurnIndex } from './turn-index';

/** The line, which is what the queue knows of its waiters, has room for this many tickets … */
export const MAX_WAITERS = 10_000;

/**
 * … and for this many bytes of them as JSON, with all that the queue remembers of the slots which they name, and with what an operator has
 * set. One run can hand 2 MiB to the next, of which the shares of fairness keys take up to 0.15 MB.
 */
export const MAX_BYTES = 1_930_000;

/** How many of these bytes the line leaves for what an operator may set: however many wait, 1,000 numbered slots can be taken out of use. */
const OVERRIDE_BYTES = 150_000;

/** The size of what the queue remembers of a slot, without its name … */
const STATE_BYTES = 300;

/** … and of a slot that is out of use. */
const DRAINED_BYTES = 120;

/** … and for this many different slot names. A resource has at most 1,000, and twice as many while a rollout renames them all. */
const MAX_NAMES = 2_000;

/**
 * The waiters of the queue: their tickets by ID, and the order of their turns. The line knows whether a queue that takes one more ticket, or a
 * longer one, could still continue as new. Of the slots it knows only which tickets have turns. To answer about a line of 10,000, it need not
 * go through all of it.
 */
export class Line {
  /** What all tickets name or count. */
  readonly slots = new TicketSlots();
  /** The tickets without a turn. */
  private readonly waiting: TurnIndex;
  private readonly tickets = new Map<string, Ticket>();
  /** The IDs of a Workflow's tickets. */
  private readonly ofWorkflow = new Map<string, Set<string>>();
  /** The number of each ticket in the order of arrival. */
  private readonly arrivals = new Map<string, number>();
  /** The IDs of the tickets that have a turn. */
  private readonly called = new Set<string>();
  /** The tickets as they were when this run gave them their last turns. */
  private readonly charged = new Map<string, Ticket>();
  /** The IDs of the tickets that are to give way. */
  private readonly outranked = new Set<string>();
  private readonly rare = { preempt: new Set<string>(), permits: new Set<string>(), inherits: new Set<string>() };
  private readonly order: TurnOrder;
  private arrived = 0;
  private ticketBytes = 0;
  /** The size of the lists of names, each of which many tickets share, and of what is remembered of their slots. */
  private listBytes = 0;

  /** @param isSilent whether the ticket's waiter has let a turn pass: such a ticket comes last */
  constructor(isSilent: (ticket: Ticket) => boolean, { tickets, shares }: Partial<QueueView> = {}) {
    this.order = new TurnOrder(shares);
    this.waiting = new TurnIndex(this.order, isSilent);
    for (const ticket of tickets ?? []) if (this.hasRoomFor(ticket)) this.set(ticket);
  }

  ticket(ticketId: string): Ticket | undefined {
    return this.tickets.get(ticketId);
  }

  /** The tickets of the Workflow that waits through this ticket, whichever of its runs has sent them. */
  besides({ waiter }: Ticket): Ticket[] {
    return [...(this.ofWorkflow.get(waiter.workflowId) ?? [])].flatMap((id) => this.tickets.get(id) ?? []);
  }

  get isEmpty(): boolean {
    return this.tickets.size === 0;
  }

  /** How many tickets have no turn. */
  get waitingCount(): number {
    return this.waiting.size;
  }

  /** The slots that the tickets without a turn name or count. */
  get waitingSlots(): TicketSlots {
    return this.waiting.slots;
  }

  /** The highest priority of the tickets without a turn. Infinity if there are none. */
  get bestPriority(): number {
    return this.waiting.bestPriority;
  }

  /** The tickets without a turn, in the order of their arrival: all, or those with this field, of which there are few. */
  *without(field?: keyof typeof this.rare): Generator<Ticket> {
    for (const id of field ? this.rare[field] : this.tickets.keys()) {
      const ticket = this.tickets.get(id);
      if (ticket && !this.called.has(id)) yield ticket;
    }
  }

  /** The tickets of callers that accumulate several permits, with a turn or without. */
  *accumulators(): Generator<Ticket> {
    for (const id of [...this.rare.permits]) {
      const ticket = this.tickets.get(id);
      if (ticket) yield ticket;
    }
  }

  get hasAccumulator(): boolean {
    return this.rare.permits.size > 0;
  }

  /** These tickets have turns, and no others. A ticket that has lost its turn is in its old place again. */
  settle(called: ReadonlySet<string>): void {
    for (const id of this.called) {
      if (called.has(id)) continue;
      this.called.delete(id);
      const ticket = this.tickets.get(id);
      if (ticket) this.waiting.add(ticket, this.arrivals.get(id) ?? 0);
    }
    for (const id of called) {
      if (this.called.has(id) || !this.tickets.has(id)) continue;
      this.called.add(id);
      this.waiting.remove(id);
    }
  }

  /** Takes the first ticket in turn order that has no turn, and marks that it has one. @param isEligible whether tickets of these slots can have the slot */
  takeFirst(isEligible: (slots: Ticket['slots']) => boolean): Ticket | undefined {
    const first = this.waiting.first(isEligible);
    if (!first) return undefined;
    this.waiting.remove(first.id);
    this.called.add(first.id);
    return first;
  }

  /** Sorts these tickets again: whether their waiter is silent has changed. */
  resort(isOf: (ticket: Ticket) => boolean): void {
    for (const ticket of this.without()) {
      if (!isOf(ticket)) continue;
      this.waiting.remove(ticket.id);
      this.waiting.add(ticket, this.arrivals.get(ticket.id) ?? 0);
    }
  }

  /** Whether there is room for what an operator sets, in addition to the tickets. */
  fitsBeside(override: OverrideInput): boolean {
    const bytes = overrideBytes(override);
    const lineBytes = this.ticketBytes + this.listBytes + this.slots.capacity * STATE_BYTES;
    return bytes <= OVERRIDE_BYTES || bytes + lineBytes <= MAX_BYTES;
  }

  /** @param override what an operator has set */
  hasRoomFor(ticket: Ticket, override?: OverrideState): boolean {
    const known = this.tickets.get(ticket.id);
    if (!known && this.tickets.size >= MAX_WAITERS) return false;
    if (typeof ticket.slots !== 'number' && this.slots.namesWith(ticket.slots) > MAX_NAMES) return false;
    const listBytes = this.listBytes + (this.sharing(ticket) === ticket ? bytesOfList(ticket) : 0);
    const capacity = Math.max(this.slots.capacity, typeof ticket.slots === 'number' ? ticket.slots : 0);
    const ticketBytes = this.ticketBytes - bytesOf(known) + bytesOf(ticket);
    const setBytes = Math.max(OVERRIDE_BYTES, override ? overrideBytes(override) : 0);
    return ticketBytes + listBytes + capacity * STATE_BYTES + setBytes <= MAX_BYTES;
  }

  /** Adds a ticket, or replaces the ticket with the same ID. A priority that the old ticket has inherited stays. */
  add(ticket: Ticket): void {
    const known = this.tickets.get(ticket.id);
    this.set(ticket);
    if (known?.inherits) this.raise(ticket, priorityOf(known));
  }

  remove(ticketId: string): void {
    this.forget(ticketId);
    for (const ids of Object.values(this.rare)) ids.delete(ticketId);
    this.outranked.delete(ticketId);
    this.tickets.delete(ticketId);
    this.arrivals.delete(ticketId);
    this.called.delete(ticketId);
    this.charged.delete(ticketId);
  }

  /**
   * A waiter of this priority waits for a resource. Callers that keep a permit of the resource while they wait here pass it on, or give
   * way.
   */
  inherit(resource: string, priorityKey: number): void {
    for (const id of [...this.rare.inherits]) {
      const ticket = this.tickets.get(id);
      if (!ticket?.inherits?.includes(resource)) continue;
      if (!ticket.givesWay) this.raise(ticket, priorityKey);
      else if (priorityKey < priorityOf(ticket)) this.outranked.add(id);
    }
  }

  /** The IDs of the tickets that are to give way. */
  get allOutranked(): string[] {
    return [...this.outranked];
  }

  /** The last run of the queue has handed on that these tickets are to give way. */
  outrank(ticketIds: readonly string[]): void {
    for (const id of ticketIds) this.outranked.add(id);
  }

  /** Removes the tickets that are to give way, except those that have a turn: they are about to get a permit, or come again. */
  *takeOutranked(): Generator<Ticket> {
    for (const id of this.outranked) {
      this.outranked.delete(id);
      const ticket = this.tickets.get(id);
      if (!ticket || this.called.has(id)) continue;
      this.remove(id);
      yield ticket;
    }
  }

  /** Counts a turn against the share of the ticket's fairness key. */
  charge(ticket: Ticket): void {
    this.charged.set(ticket.id, ticket);
    this.order.charge(ticket);
  }

  /** The turn was not used. The waiter does not know what its ticket has inherited, and the ticket may have inherited it since the charge. */
  refund(ticket: Ticket): void {
    this.order.refund(this.charged.get(ticket.id) ?? this.tickets.get(ticket.id) ?? ticket);
  }

  view(): Pick<QueueView, 'tickets' | 'shares'> {
    return { tickets: [...this.tickets.values()], shares: this.order.shares() };
  }

  private raise(ticket: Ticket, priorityKey: number): void {
    if (priorityKey < priorityOf(ticket)) this.set({ ...ticket, priorityKey });
  }

  private set(ticket: Ticket): void {
    const shared = this.sharing(ticket);
    this.forget(ticket.id);
    this.ticketBytes += bytesOf(ticket);
    if (this.slots.add(shared)) this.listBytes += bytesOfList(shared);
    for (const field of ['preempt', 'permits', 'inherits'] as const) {
      if (ticket[field]) this.rare[field].add(ticket.id);
      else this.rare[field].delete(ticket.id);
    }
    const arrival = this.arrivals.get(ticket.id) ?? this.arrived++;
    this.arrivals.set(ticket.id, arrival);
    this.tickets.set(ticket.id, shared);
    const { workflowId } = ticket.waiter;
    const ids = this.ofWorkflow.get(workflowId) ?? new Set();
    this.ofWorkflow.set(workflowId, ids.add(ticket.id));
    if (!this.called.has(ticket.id)) this.waiting.add(shared, arrival);
  }

  /** Reuses an equal list of names of another ticket: tickets of one resource nearly always name the same slots. */
  private sharing(ticket: Ticket): Ticket {
    const slots = typeof ticket.slots === 'number' ? undefined : this.slots.listOf(ticket.slots);
    return slots ? { ...ticket, slots } : ticket;
  }

  private forget(ticketId: string): void {
    const ticket = this.tickets.get(ticketId);
    if (!ticket) return;
    this.ticketBytes -= bytesOf(ticket);
    if (this.slots.remove(ticket)) this.listBytes -= bytesOfList(ticket);
    this.waiting.remove(ticketId);
    const { workflowId } = ticket.waiter;
    const ids = this.ofWorkflow.get(workflowId);
    ids?.delete(ticketId);
    if (ids?.size === 0) this.ofWorkflow.delete(workflowId);
  }
}

/**
 * The size of a ticket. The queue may owe it an answer, and its place may be in doubt: both lists then contain the number of its row. A ticket
 * that may inherit a priority counts with that priority from the start, so that a full line still fits into one argument afterwards.
 */
function bytesOf(ticket: Ticket | undefined): number {
  if (!ticket) return 0;
  return rowBytes(ticket.inherits ? { ...ticket, priorityKey: priorityOf(ticket) } : ticket) + 12;
}

/** The size of a list of names: each name is contained in the list, and next to the state of its slot. */
function bytesOfList({ slots }: Ticket): number {
  return typeof slots === 'number' ? 0 : 2 * byteLength(JSON.stringify(slots)) + slots.length * STATE_BYTES;
}

/** The size of an override, with what the queue remembers of the slots that are out of use. */
function overrideBytes(override: OverrideInput | OverrideState): number {
  const { slots, capacity = 0 } = override;
  const isNumber = typeof slots === 'number';
  const states = DRAINED_BYTES * (isNumber ? Math.max(slots, capacity) : slots.length);
  return byteLength(JSON.stringify(override)) + (isNumber ? 0 : byteLength(JSON.stringify(slots))) + states;
}
