import { textOf } from './lenient-input';
import { isFairnessKey } from './priority';
import type { OverrideState, QueueView, SlotState, Ticket } from './protocol';
import { ticketsOf } from './ticket-rows';
import { fieldsOf, isCount, isNumber, listOf, MAX_TIME_MS } from './untyped';
import { areSlots, isOverride, readTicket } from './wire-input';
// Readers of what a wait queue remembers, for callers that only show it, and partly for the queue's next run. They keep each valid part, and
// leave out the rest.

/** Reads a wait queue's answer. `undefined` if the value is no answer at all. */
export function readQueueView(resource: string, answer: unknown): QueueView | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const { slots, shares, override } = fieldsOf(answer);
  return {
    tickets: [...readTickets(resource, answer).values()].map((ticket) => ({
      ...ticket,
      identity: textOf(ticket.identity),
      fairnessKey: textOf(ticket.fairnessKey),
    })),
    slots: listOf(slots).flatMap((slot) => readSlot(slot)),
    shares: readShares(shares),
    override: readOverride(resource, override),
  };
}

/** The tickets in the queue that have no turn. */
export function withoutTurn({ tickets, slots }: QueueView): Ticket[] {
  const offered = new Set(slots.flatMap(([, state]) => (state.at === 'offered' ? state.ticketId : [])));
  return tickets.filter(({ id }) => !offered.has(id));
}

function readSlot(value: unknown): QueueView['slots'] {
  const [name, state] = listOf(value);
  const slot = textOf(name);
  return slot !== undefined && textOf(fieldsOf(state).at) !== undefined ? [[slot, state as SlotState]] : [];
}

/** The tickets of a view, by ID. */
export function readTickets(resource: string, view: unknown): Map<string, Ticket> {
  const { tickets, rows, lists } = fieldsOf(view);
  const known = listOf(lists).map((list) => (areSlots(resource, list) ? (list as Ticket['slots']) : undefined));
  const read = new Map<string, Ticket>();
  for (const sent of [...listOf(tickets), ...ticketsOf(rows)]) {
    const { list } = fieldsOf(sent);
    const slots = isCount(list, known.length, 0) ? known[list] : undefined;
    // A list is checked once, and not for each of a thousand tickets.
    const ticket = readTicket(resource, slots ? { ...fieldsOf(sent), slots: 1 } : sent);
    if (ticket) read.set(ticket.id, slots ? { ...ticket, slots } : ticket);
  }
  return read;
}

/** Far more than a queue can charge, and far below where numbers lose precision. */
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

export function readOverride(resource: string, value: unknown): OverrideState | undefined {
  const { version, slots, capacityUntilMs, before: sent, paused, pausedUntilMs } = fieldsOf(value);
  const set = readSetting(value);
  if (!isOverride(resource, { slots, ...set, paused }) || typeof paused !== 'boolean') return undefined;
  if (!isCount(version, MAX_TIME_MS)) return undefined;
  const isTime = (it: unknown) => it === undefined || isNumber(it, 0, MAX_TIME_MS);
  if (!isTime(pausedUntilMs) || !isTime(capacityUntilMs)) return undefined;
  const before = sent === undefined ? undefined : readSetting(sent);
  if (!isOverride(resource, { slots, ...before, paused })) return undefined;
  const state = { version, slots, ...set, capacityUntilMs, before, paused, pausedUntilMs };
  return JSON.parse(JSON.stringify(state)) as OverrideState; // without what is absent
}

/** Reads what is set now, or was set before. */
function readSetting(value: unknown) {
  const { capacity, reason, fileVersion } = fieldsOf(value);
  return { capacity, reason, fileVersion };
}
