import type { OverrideState, SlotsMark } from './protocol';
import { sha256 } from './sha256';
import { byteOrder } from './utf8';

/** The most slots that a resource can have. */
export const MAX_SLOTS = 1_000;

/** Slots as the protocol writes them: a capacity (slots `"0"` to `"N-1"`), or names. A thousand tickets must be small. */
export type Slots = number | string[];

export function slotNames(slots: Slots): readonly string[] {
  return typeof slots === 'number' ? Array.from({ length: slots }, (_, index) => String(index)) : slots;
}

export function wantsSlot(slots: Slots, slot: string): boolean {
  if (typeof slots !== 'number') return slots.includes(slot);
  const index = Number(slot);
  return String(index) === slot && index >= 0 && index < slots && Number.isInteger(index);
}

/** Whether one of these slots is not among the others. */
export function hasMore(slots: Slots, others: Slots): boolean {
  if (typeof slots === 'number' && typeof others === 'number') return slots > others;
  return slotNames(slots).some((slot) => !wantsSlot(others, slot));
}

/** Whether the slot is in use: each slot is, if an operator has set nothing. */
export function isSlotInUse(slot: string, override: OverrideState | undefined): boolean {
  if (!override) return true;
  const { slots, capacity, paused } = override;
  if (paused) return false;
  return wantsSlot(typeof slots === 'number' ? (capacity ?? slots) : slots.slice(0, capacity), slot);
}

const SLOTS_HASH_LENGTH = 16;

/** `3`; or, for names, `3#9f86d081884c7d65`, whatever their order. Names that are the slots of a capacity count as that capacity. */
export function slotsMark(slots: Slots): SlotsMark {
  if (typeof slots === 'number') return slots;
  const names = [...slots].sort(byteOrder);
  const counted = slotNames(names.length);
  if (counted.every((name) => slots.includes(name))) return names.length;
  return `${names.length}#${sha256(new TextEncoder().encode(names.join('\n'))).slice(0, SLOTS_HASH_LENGTH)}`;
}

/** The mark in `value`; `undefined` if it is none. */
export function readSlotsMark(value: unknown): SlotsMark | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && value >= 1 ? value : undefined;
  return typeof value === 'string' && /^[1-9]\d{0,3}#[0-9a-f]{16}$/.test(value) ? value : undefined;
}
