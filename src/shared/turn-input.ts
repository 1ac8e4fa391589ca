import { MAX_SLOTS } from './options';
import { queueId, resourceOfQueue } from './permit-id';
import type { Turn } from './protocol';
import { type Slots, wantsSlot } from './slots';
import { isWorkflowId } from './wire-input';

// A turn grants nothing, but a waiter acts on it: it starts a Workflow whose ID has the turn's slot, and signals one whose ID is
// the turn's queue. So it checks a turn like everything else that comes over the wire.

/** Copies the fields of a turn; `undefined` when it is malformed, or names no queue. */
export function readTurn(value: unknown): Turn | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { queueId: from, ticketId, slot, waiting, capacity } = value as Record<string, unknown>;
  if (!isWorkflowId(from) || queueId(resourceOfQueue(from)) !== from) return undefined;
  if (typeof ticketId !== 'string' || !(slot === undefined || typeof slot === 'string')) return undefined;
  const turn: Turn = { queueId: from, ticketId };
  if (slot !== undefined) turn.slot = slot;
  if (waiting === true) turn.waiting = true;
  if (Number.isInteger(capacity)) turn.capacity = capacity as number;
  return turn;
}

/**
 * Whether a waiter with these slots may claim the slot of this turn: one of its own, or, if it counts its slots, one that an
 * operator has added, up to the capacity that the turn names.
 */
export function offersSlot({ slot, capacity = 0 }: Turn, slots: Slots): boolean {
  if (slot === undefined) return false;
  return wantsSlot(slots, slot) || (typeof slots === 'number' && wantsSlot(Math.min(capacity, MAX_SLOTS), slot));
}
