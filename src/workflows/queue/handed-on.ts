import type { OverrideState } from '../../shared/operator-protocol';
import { isRunId } from '../../shared/permit-id';
import type { Ticket } from '../../shared/protocol';
import type { AskedSlot, QueueInput, QueueView, ShownView, SlotState } from '../../shared/queue-view';
import {
  areSlots,
  fieldsOf,
  isCount,
  isFairnessKey,
  isNumber,
  isOverride,
  listOf,
  MAX_TIME_MS,
  readTerms,
  readTicket,
} from '../../shared/wire-input';
import { DRAIN_RENEWAL_MS } from './operated-queue-state';
import { ANSWERS_WITHIN_MS, LATE_MS } from './preempting-queue-state';
import { MOST_MS as PROBE_WITHIN_MS } from './probe-interval';
import { OFFER_TIMEOUT_MS } from './queue-state';

// What one run of the queue hands to the next. Nothing proves where it comes from: a stranger's Workflow may continue as our queue. So
// it is read like any message. No time in it is further away than the queue itself would set it, so that no slot waits for ever.

/** As the query shows it, and as the next run gets it: the names of each list of slots stand there once. */
export function shown(view: QueueView): ShownView {
  const lists = new Map<string[], number>();
  const tickets = view.tickets.map(({ slots, ...ticket }) => {
    if (typeof slots === 'number') return { ...ticket, slots };
    const list = lists.get(slots) ?? lists.size;
    lists.set(slots, list);
    return { ...ticket, list };
  });
  return { ...view, tickets, ...(lists.size > 0 && { lists: [...lists.keys()] }) };
}

/** Keeps what is credible in the argument of a queue. */
export function readHandedOn(resource: string, { view, unanswered, inDoubt }: Partial<QueueInput>, nowMs: number) {
  const { slots, shares, override } = fieldsOf(view);
  const tickets = readTickets(resource, view);
  const ofTickets = (ids: unknown) => listOf(ids).filter((id): id is string => tickets.has(id as string));
  return {
    view: {
      tickets: [...tickets.values()],
      slots: readSlots(resource, slots, tickets, nowMs),
      shares: readShares(shares),
      override: readOverride(resource, override),
    } satisfies QueueView,
    unanswered: ofTickets(unanswered),
    inDoubt: ofTickets(inDoubt),
  };
}

function readTickets(resource: string, view: unknown): Map<string, Ticket> {
  const { tickets, lists } = fieldsOf(view);
  const named = listOf(lists).map((list) => (Array.isArray(list) && areSlots(resource, list) ? list : undefined));
  const read = new Map<string, Ticket>();
  for (const sent of listOf(tickets)) {
    const { list } = fieldsOf(sent);
    const slots = isCount(list, named.length, 0) ? named[list] : undefined;
    // A list is checked once, and not for each of a thousand tickets.
    const ticket = readTicket(resource, slots ? { ...fieldsOf(sent), slots: 1 } : sent);
    if (ticket) read.set(ticket.id, slots ? { ...ticket, slots } : ticket);
  }
  return read;
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

/** Not of a slot that a run is asking about or claims: it continues as new only when no answer is due. */
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

/** A time, but no later than `latestMs`. What is no time is long ago: then the queue looks. */
function by(latestMs: number, value: unknown): number {
  return isNumber(value, 0, MAX_TIME_MS) ? Math.min(latestMs, value) : 0;
}

/** Far more than a queue can charge, and far from where numbers get coarse. */
const MAX_VIRTUAL_TIME = 1e12;

function readShares(value: unknown): QueueView['shares'] {
  const isShare = (it: unknown) => isNumber(it, 0, MAX_VIRTUAL_TIME);
  return listOf(value).flatMap((share): QueueView['shares'] => {
    const [priorityKey, nowAt, keys] = listOf(share);
    if (!isCount(priorityKey, Number.MAX_SAFE_INTEGER) || !isShare(nowAt)) return [];
    const served = listOf(keys).filter((pair): pair is [string, number] => {
      const [key, servedTo] = listOf(pair);
      return isFairnessKey(key) && isShare(servedTo);
    });
    return [[priorityKey, nowAt as number, served]];
  });
}

function readOverride(resource: string, value: unknown): OverrideState | undefined {
  const { version, slots, capacity, paused, pausedUntilMs, reason } = fieldsOf(value);
  if (!isOverride(resource, { slots, capacity, paused, reason }) || typeof paused !== 'boolean') return undefined;
  if (!isCount(version, MAX_TIME_MS) || !(pausedUntilMs === undefined || isNumber(pausedUntilMs, 0, MAX_TIME_MS)))
    return undefined;
  const state = { version, slots, capacity, paused, pausedUntilMs, reason } as OverrideState;
  return JSON.parse(JSON.stringify(state)) as OverrideState; // without what is absent
}
