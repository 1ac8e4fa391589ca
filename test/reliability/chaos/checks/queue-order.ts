import type { WorkflowHandle } from '@temporalio/client';
import { parsePermitId } from '@/shared/permit-id';
import { DEFAULT_PRIORITY_KEY } from '@/shared/priority';
import type { QueueInput } from '@/shared/protocol';
import {
  CLOSING,
  type ClosingNotice,
  DECLINED,
  type DeclinedNotice,
  ENQUEUE,
  INHERIT,
  type InheritNotice,
  MISSED,
  type MissedNotice,
  type Ticket,
  TURN,
  type Turn,
} from '@/shared/protocol';
import { readTickets } from '@/shared/queue-view';
import { MAX_WAITERS } from '@/workflows/queue/line';
import { NOWHERE } from '../actors/signal-faults';

type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];
/** The parts of an event that are read here. */
export type QueueEvent = Pick<
  HistoryEvent,
  | 'eventId'
  | 'workflowExecutionStartedEventAttributes'
  | 'workflowExecutionSignaledEventAttributes'
  | 'workflowTaskCompletedEventAttributes'
  | 'signalExternalWorkflowExecutionInitiatedEventAttributes'
  | 'signalExternalWorkflowExecutionFailedEventAttributes'
>;

/**
 * F: whether one run of a queue gave its turns by priority, then by what a permit pool has, then arrival. It is derived from the run's history alone: which
 * tickets had come, and not left, when the queue decided. All tickets of a chaos pool want all of its slots and have one fairness
 * key, so the first must be the first of all; those of strangers want what they say.
 */
export function checkTurns(events: readonly QueueEvent[]): { turns: number; disorder: string[] } {
  // Somebody else's: what it was started with is forged.
  if (events[0]?.workflowExecutionStartedEventAttributes?.cronSchedule) return { turns: 0, disorder: [] };
  const line = new Line(events[0]);
  const news: QueueEvent[] = [];
  const disorder: string[] = [];
  let turns = 0;
  for (const [at, event] of events.entries()) {
    if (event.workflowExecutionSignaledEventAttributes || event.signalExternalWorkflowExecutionFailedEventAttributes)
      news.push(event);
    const { workflowTaskCompletedEventAttributes: task } = event;
    if (!task) continue;
    // The queue has seen what had come when its task began.
    while (news[0] && Number(news[0].eventId) < Number(task.startedEventId)) line.take(news.shift());
    const given = turnsOf(events, at);
    // Refused in the same decision: it wants more than an operator has left, or the line is full. Or it gives way.
    for (const { ticketId, slot, waiting } of given) if (slot === undefined && !waiting) line.refuse(ticketId);
    line.passOver(given);
    for (const { ticketId, slot, eventId, to } of given) {
      if (slot === undefined) continue;
      turns++;
      const overtaken = line.offer(ticketId, slot, to);
      if (to?.runId) line.anotherTurn(ticketId, slot);
      if (overtaken) disorder.push(`event ${eventId}: ticket ${ticketId} had its turn before ${overtaken}`);
    }
  }
  return { turns, disorder };
}

interface GivenTurn extends Turn, Pick<QueueEvent, 'eventId'> {
  /** Without its run, where a turn is told again. */
  to?: { workflowId?: string | null; runId?: string | null } | null;
}

/** The turns that the queue gave in the task that completed there. */
function turnsOf(events: readonly QueueEvent[], completedAt: number): GivenTurn[] {
  const rest = events.slice(completedAt + 1);
  const next = rest.findIndex(({ workflowTaskCompletedEventAttributes: task }) => task);
  return rest.slice(0, next === -1 ? rest.length : next).flatMap((event) => {
    const { eventId, signalExternalWorkflowExecutionInitiatedEventAttributes: sent } = event;
    const turn = sent?.signalName === TURN ? payload<Turn>(sent.input?.payloads) : undefined;
    return turn ? [{ ...turn, eventId, to: sent?.workflowExecution }] : [];
  });
}

class Line {
  private readonly waiting = new Map<string, Ticket>();
  private readonly closed = new Map<string, string>();
  /** The best priority that was told of each resource's line. */
  private readonly inherited = new Map<string, number>();
  /** The best priority that each ticket has had. It keeps what it inherits while it is in line, also in the next run. */
  private readonly best = new Map<string, number>();
  private readonly offered = new Map<string, { ticket: Ticket; slot: string; declined?: true }>();
  /**
   * Tickets that were sent again while they had turns. Once a turn is overdue, such a ticket is back in the line; and then a permit that closes its
   * slot is perhaps not its own, and it has another turn.
   */
  private readonly sentAgain = new Map<string, Ticket>();
  /** Who has let a turn pass: those come last. */
  private readonly silent = new Set<string>();

  constructor(started: QueueEvent | undefined) {
    const { input, continuedExecutionRunId } = started?.workflowExecutionStartedEventAttributes ?? {};
    const { tickets = [], view } = payload<QueueInput>(input?.payloads) ?? { tickets: [] };
    const former = continuedExecutionRunId ? readTickets('a resource', view).values() : [];
    for (const ticket of [...former, ...tickets]) this.add(ticket);
    for (const [slot, state] of view?.slots ?? [])
      if (state.at === 'offered' && !state.reserved) this.offer(state.ticketId, slot);
  }

  take(event: QueueEvent | undefined): void {
    const noPermit = event?.signalExternalWorkflowExecutionFailedEventAttributes?.workflowExecution?.workflowId;
    if (noPermit) this.notThere(parsePermitId(noPermit)?.slot);
    const { signalName, input } = event?.workflowExecutionSignaledEventAttributes ?? {};
    if (signalName === ENQUEUE) this.enqueue(payload<Ticket>(input?.payloads));
    if (signalName === MISSED) {
      const { ticket, slot } = payload<Partial<MissedNotice>>(input?.payloads) ?? {};
      if (ticket && this.offered.get(ticket.id)?.slot === slot) this.offered.delete(ticket.id);
      if (ticket && slot) this.offered.delete(formerTurn(ticket.id, slot));
      this.enqueue(ticket);
    }
    if (signalName === DECLINED) this.decline(payload<DeclinedNotice>(input?.payloads));
    if (signalName === INHERIT) {
      const { resource = '', priorityKey = 9 } = payload<Partial<InheritNotice>>(input?.payloads) ?? {};
      this.inherited.set(resource, Math.min(priorityKey, this.inherited.get(resource) ?? priorityKey));
    }
    if (signalName === CLOSING) {
      const closing = payload<ClosingNotice>(input?.payloads);
      if (closing) this.close(closing);
    }
  }

  /** The queue gives turns for slots of which others have turns: these have used theirs without a word, or have let them pass. */
  passOver(given: readonly Turn[]): void {
    for (const [id, { ticket, slot, declined }] of this.offered) {
      const isGivenAnew = given.some((turn) => turn.slot === slot);
      if (!isGivenAnew || given.some(({ ticketId }) => ticketId === ticket.id)) continue;
      if (declined) this.offered.delete(id);
      else this.silent.add(whoOf(ticket));
    }
  }

  /** The queue has asked for the permit that should have come of a turn, and there is none. */
  private notThere(slot: string | undefined): void {
    for (const offer of this.offered.values()) if (offer.slot === slot) this.silent.add(whoOf(offer.ticket));
  }

  /** Takes a ticket out of the line. What became of a turn that it has had is still to be seen. */
  refuse(ticketId: string): void {
    this.waiting.delete(ticketId);
  }

  /** @param to whom the queue has told, unless a former run has @returns whom this turn overtakes */
  offer(ticketId: string, slot: string, to?: GivenTurn['to']): string | undefined {
    const ticket = this.waiting.get(ticketId);
    const back = ticket ? undefined : this.sentAgain.get(ticketId);
    if (back && to?.runId && !this.offered.has(ticketId)) this.offered.set(ticketId, { ticket: back, slot });
    if (!ticket || (to && isToldAgain(ticket, to))) return undefined;
    this.waiting.delete(ticketId);
    this.offered.set(ticketId, { ticket, slot });
    const raised = { ...ticket, priorityKey: this.raised(ticket) };
    const isOvertaken = (other: Ticket) =>
      isBefore(other, raised) && wants(other, slot) && !this.silent.has(whoOf(other));
    return [...this.waiting.values()].find(isOvertaken)?.id;
  }

  /**
   * A waiter has a turn, and now another one. Of several turns for one slot, all but the first take their tickets out of the line; so does
   * a turn that is overdue. A live waiter sends its ticket again then, and the queue may give it a turn for another slot. That is its
   * turn from then on. What becomes of either tells of the waiter.
   */
  anotherTurn(ticketId: string, slot: string): void {
    const offer = this.offered.get(ticketId);
    if (!offer || offer.slot === slot) return;
    this.offered.set(formerTurn(ticketId, offer.slot), offer);
    this.offered.set(ticketId, { ticket: offer.ticket, slot });
  }

  /** Its caller keeps permits of other resources, and so has the best priority that was told of their lines, unless it gives way. */
  private raised({ id, inherits = [], givesWay }: Ticket): number {
    const told = (givesWay ? [] : inherits).map((resource) => this.inherited.get(resource) ?? 9);
    return Math.min(this.best.get(id) ?? 9, ...told);
  }

  private add(ticket: Ticket): void {
    this.waiting.set(ticket.id, ticket);
    this.best.set(ticket.id, Math.min(ticket.priorityKey || DEFAULT_PRIORITY_KEY, this.best.get(ticket.id) ?? 9));
  }

  /** The ticket that had the slot was served. A permit may say twice that it closes, which tells nothing of the next. */
  private close({ slot, runId }: ClosingNotice): void {
    if (this.closed.get(slot) === runId) return;
    this.closed.set(slot, runId);
    for (const [id, offer] of this.offered) if (offer.slot === slot) this.offered.delete(id);
  }

  private enqueue(ticket: Ticket | undefined): void {
    if (typeof ticket?.id !== 'string' || !ticket.waiter) return;
    const offer = this.offered.get(ticket.id);
    if (offer && offer.ticket.waiter.runId === ticket.waiter.runId) {
      this.sentAgain.set(ticket.id, ticket);
      return; // it has its turn
    }
    const known = this.waiting.get(ticket.id);
    if (!known && !offer) this.dropEarlierRuns(ticket);
    if (!known && !offer && this.waiting.size + this.offered.size >= MAX_WAITERS) return; // a stranger has filled the line
    if (known?.waiter.runId !== ticket.waiter.runId) this.silent.delete(whoOf(ticket));
    this.offered.delete(ticket.id);
    this.add(ticket);
  }

  /** Only one run of a Workflow exists at a time: an operator has reset it, so earlier runs wait no more. */
  private dropEarlierRuns({ waiter }: Ticket): void {
    for (const [id, other] of this.waiting)
      if (other.waiter.workflowId === waiter.workflowId && other.waiter.runId !== waiter.runId) this.waiting.delete(id);
  }

  private decline(notice: DeclinedNotice | undefined): void {
    const { ticketId = '', runId } = notice ?? {};
    const offer = this.offered.get(ticketId);
    const ticket = this.waiting.get(ticketId) ?? offer?.ticket;
    if (!ticket || (runId !== undefined && ticket.waiter.runId !== runId)) return;
    // Where the turn was overdue, the ticket has left the line: the queue does not know whose word this is.
    if (offer) offer.declined = true;
    else this.silent.delete(whoOf(ticket));
    this.waiting.delete(ticketId);
  }
}

/**
 * A turn that its waiter was not there to hear is told again, without the run. Meanwhile the ticket may have come back, even with another
 * waiter: this is no turn of that.
 */
function isToldAgain({ waiter }: Ticket, { workflowId, runId }: NonNullable<GivenTurn['to']>): boolean {
  return workflowId !== NOWHERE && (!runId || workflowId !== waiter.workflowId);
}

/** By which a turn is known when its ticket has another one. */
function formerTurn(ticketId: string, slot: string): string {
  return `${ticketId} ${slot}`;
}

function whoOf({ identity, waiter }: Ticket): string {
  return identity ?? waiter.workflowId;
}

/** One that counts slots takes those that an operator has added, too. */
function wants({ slots }: Ticket, slot: string): boolean {
  return typeof slots === 'number' || slots.includes(slot);
}

/** As docs/protocol.md has the order of turns. All have one fairness key. */
function isBefore(one: Ticket, other: Ticket): boolean {
  const [first, second] = [one, other].map(({ kept, priorityKey, pool, sinceMs }) => [
    kept ? 0 : 1,
    priorityKey || DEFAULT_PRIORITY_KEY,
    pool?.nth ?? 1,
    sinceMs,
  ]) as [number[], number[]];
  const at = first.findIndex((value, index) => value !== second[index]);
  return at >= 0 && (first[at] ?? 0) < (second[at] ?? 0);
}

/** `undefined` for what is no JSON. */
export function payload<T>(payloads: readonly { data?: Uint8Array | null }[] | null | undefined): T | undefined {
  const data = payloads?.[0]?.data;
  try {
    return data?.length ? (JSON.parse(Buffer.from(data).toString()) as T) : undefined;
  } catch {
    return undefined; // a stranger's
  }
}
