import { isRunId } from '../../shared/permit-id';
import type { AskedSlot, QueueInput, QueueView, ShownView, SlotState, Ticket } from '../../shared/protocol';
import { readOverride, readShares, readTickets } from '../../shared/queue-view';
import { tableOf, ticketsOf } from '../../shared/ticket-rows';
import { fieldsOf, isNumber, listOf, MAX_TIME_MS } from '../../shared/untyped';
import { areSlots, readTerms } from '../../shared/wire-input';
import { DRAIN_RENEWAL_MS } from './drains';
import { OFFER_TIMEOUT_MS } from './offer-timeouts';
import { ANSWERS_WITHIN_MS, LATE_MS } from './preemption';
import { MOST_MS as PROBE_WITHIN_MS } from './queue-command';

// What one run of the queue hands to the next. Nothing proves where the argument comes from: a stranger's Workflow may continue as our
// queue. So a run reads it like any message, and takes no time that is further away than the queue would set it: no slot waits for ever.

/** The query shows so many tickets as objects, which others read. */
const MAX_SHOWN = 1_000;

/** As the query shows it: the names of each list of slots stand there once. */
export function shown(view: QueueView): ShownView {
  if (view.tickets.length > MAX_SHOWN) return asTable(view);
  const lists = new Map<string[], number>();
  const tickets = view.tickets.map(({ slots, ...ticket }) => {
    if (typeof slots === 'number') return { ...ticket, slots };
    const list = lists.get(slots) ?? lists.size;
    lists.set(slots, list);
    return { ...ticket, list };
  });
  return { ...view, tickets, ...(lists.size > 0 && { lists: [...lists.keys()] }) };
}

function asTable({ tickets, ...others }: QueueView): ShownView {
  return { ...others, tickets: [], ...tableOf(tickets) };
}

/** The argument of the next run. The IDs are those of tickets in the view. */
export function handOn(view: QueueView, unanswered: Iterable<string>, inDoubt: Iterable<string>): QueueInput {
  const rows = new Map(view.tickets.map(({ id }, row) => [id, row]));
  const rowsOf = (ids: Iterable<string>) => [...ids].flatMap((id) => rows.get(id) ?? []);
  return { tickets: [], view: asTable(view), unanswered: rowsOf(unanswered), inDoubt: rowsOf(inDoubt) };
}

/** What a run was handed: its memory, and of the tickets in it, those that are owed an answer, and those in doubt. */
export type HandedOn = ReturnType<typeof readHandedOn>;

/** Keeps what is credible in the argument of a queue. */
export function readHandedOn(resource: string, { view, unanswered, inDoubt }: Partial<QueueInput>, nowMs: number) {
  const { slots, shares, override, calledAtMs } = fieldsOf(view);
  const tickets = readTickets(resource, view);
  const rows = listOf(fieldsOf(view).rows);
  const idOf = (row: number) => fieldsOf(ticketsOf([rows[row]])[0]).id;
  const ofTickets = (named: unknown) =>
    listOf(named)
      .map((it) => (typeof it === 'number' ? idOf(it) : it))
      .filter((id): id is string => tickets.has(id as string));
  return {
    view: {
      tickets: [...tickets.values()],
      slots: readSlots(resource, slots, tickets, nowMs),
      shares: readShares(shares),
      override: readOverride(resource, override),
      ...(calledAtMs !== undefined && { calledAtMs: by(nowMs, calledAtMs) }),
    } satisfies QueueView,
    unanswered: ofTickets(unanswered),
    inDoubt: ofTickets(inDoubt),
  };
}

function readSlots(
  resource: string,
  value: unknown,
  tickets: Map<string, Ticket>,
  nowMs: number,
): [slot: string, SlotState][] {
  const offered = new Set<string>();
  return listOf(value).flatMap((entry): [string, SlotState][] => {
    const [slot, sent] = listOf(entry);
    const state = areSlots(resource, [slot]) ? readState(sent, nowMs) : undefined;
    if (!state) return [];
    if (state.at === 'offered') {
      if (offered.has(state.ticketId) || !tickets.has(state.ticketId)) return []; // a ticket has one turn at most
      offered.add(state.ticketId);
    }
    return [[slot as string, state]];
  });
}

/** Takes no slot that a run is probing or claiming: a run continues as new only when no answer is due. */
function readState(value: unknown, nowMs: number): SlotState | undefined {
  const { at, sinceMs, probeAtMs, runId, ticketId, untilMs, reserved, renewAtMs } = fieldsOf(value);
  const asked = readAsked(value, nowMs);
  if (at === 'free' || at === 'unseen') return { at };
  if (at === 'held') {
    const times = { sinceMs: by(nowMs, sinceMs), probeAtMs: by(nowMs + PROBE_WITHIN_MS, probeAtMs) };
    return { at, ...times, ...(isRunId(runId) && { runId }), ...asked };
  }
  if (at === 'offered' && !reserved && typeof ticketId === 'string') {
    return { at, ticketId, untilMs: by(nowMs + OFFER_TIMEOUT_MS, untilMs), ...asked };
  }
  if (at === 'drained' && isRunId(runId)) return { at, runId, renewAtMs: by(nowMs + DRAIN_RENEWAL_MS, renewAtMs) };
  return undefined;
}

function readAsked(value: unknown, nowMs: number): AskedSlot {
  const { answersByMs, holder } = fieldsOf(value);
  const { runId, untilMs } = fieldsOf(holder);
  const terms = readTerms(holder);
  const asked: AskedSlot = {};
  if (answersByMs !== undefined) asked.answersByMs = by(nowMs + ANSWERS_WITHIN_MS, answersByMs);
  if (terms && isRunId(runId)) {
    const endsBy = untilMs !== undefined && { untilMs: by(nowMs + terms.graceMs + LATE_MS, untilMs) };
    asked.holder = { ...terms, runId, ...endsBy };
  }
  return asked;
}

/** A time, but no later than `latestMs`. Anything else is long ago: then the queue probes. */
function by(latestMs: number, value: unknown): number {
  return isNumber(value, 0, MAX_TIME_MS) ? Math.min(latestMs, value) : 0;
}
