import type { OverrideState } from '../../shared/operator-protocol';
import { MAX_SLOTS } from '../../shared/options';
import type { Ticket } from '../../shared/protocol';
import type { QueueView, SlotState } from '../../shared/queue-view';
import type { Slots } from '../../shared/slots';
import { readPoolShare } from '../../shared/wire-input';
import { listOf, numberOf, recordOf, textOf, timeOf } from './foreign-values';

/** Reads a wait queue's answer, and leaves out what is malformed. `undefined` when it is no answer at all. */
export function readQueueView(answer: unknown): QueueView | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const { tickets, lists, slots, shares, override } = recordOf(answer);
  const named = listOf(lists).map(readSlots);
  return {
    tickets: listOf(tickets).flatMap((ticket) => readShownTicket(ticket, named) ?? []),
    slots: listOf(slots).flatMap((slot) => readSlot(slot)),
    shares: listOf(shares).flatMap((share) => readShare(share)),
    override: readOverride(override),
  };
}

function readShownTicket(value: unknown, named: readonly (Slots | undefined)[]): Ticket | undefined {
  const ticket = recordOf(value);
  const { workflowId, runId } = recordOf(ticket.waiter);
  const id = textOf(ticket.id);
  const waiterId = textOf(workflowId);
  const slots = readSlots(ticket.slots) ?? named[numberOf(ticket.list) ?? -1];
  if (id === undefined || waiterId === undefined || slots === undefined) return undefined;
  return {
    id,
    waiter: { workflowId: waiterId, runId: textOf(runId) ?? '' },
    slots,
    identity: textOf(ticket.identity),
    sinceMs: timeOf(ticket.sinceMs) ?? 0,
    priorityKey: numberOf(ticket.priorityKey),
    fairnessKey: textOf(ticket.fairnessKey),
    fairnessWeight: numberOf(ticket.fairnessWeight),
    pool: readPoolShare(ticket.pool),
  };
}

function readSlots(slots: unknown): Slots | undefined {
  if (Array.isArray(slots)) {
    return slots.length > 0 && slots.length <= MAX_SLOTS && slots.every(textOf) ? slots : undefined;
  }
  return readCapacity(slots);
}

function readCapacity(value: unknown): number | undefined {
  const capacity = numberOf(value);
  return Number.isInteger(capacity) && capacity && capacity >= 1 && capacity <= MAX_SLOTS ? capacity : undefined;
}

function readSlot(value: unknown): QueueView['slots'] {
  const [name, state] = listOf(value);
  const slot = textOf(name);
  return slot !== undefined && textOf(recordOf(state).at) !== undefined ? [[slot, state as SlotState]] : [];
}

function readShare(value: unknown): QueueView['shares'] {
  const [priorityKey, nowAt, keys] = listOf(value);
  if (numberOf(priorityKey) === undefined || numberOf(nowAt) === undefined) return [];
  const served = listOf(keys).flatMap((pair): [string, number][] => {
    const [key, servedTo] = listOf(pair);
    return typeof key === 'string' && numberOf(servedTo) !== undefined ? [[key, servedTo as number]] : [];
  });
  return [[priorityKey as number, nowAt as number, served]];
}

function readOverride(value: unknown): OverrideState | undefined {
  const { version, slots, capacity, paused, pausedUntilMs, reason } = recordOf(value);
  const deployed = readSlots(slots);
  if (numberOf(version) === undefined || deployed === undefined || typeof paused !== 'boolean') return undefined;
  return {
    version: version as number,
    slots: deployed,
    capacity: readCapacity(capacity),
    paused,
    pausedUntilMs: timeOf(pausedUntilMs),
    reason: textOf(reason),
  };
}
