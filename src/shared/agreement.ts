import { byteOrder } from './permit-id';
import { sha256 } from './sha256';
import { type Slots, slotNames } from './slots';

/**
 * The slots that an acquirer takes a resource to have, in few bytes: a capacity; or, of names, how many there are and a hash of
 * them. Nothing makes acquirers agree, so this lets operators see where they don't.
 */
export type SlotsMark = number | string;

/** The part of a permit's memo that is for this. */
export interface SlotsMemo {
  /** The slots that its claimer takes the resource to have. */
  slots?: SlotsMark;
}

const HASH_LENGTH = 16;

/** `3`; or, of names, `3#9f86d081884c7d65`, whatever their order. Names that a capacity would give are that capacity. */
export function slotsMark(slots: Slots): SlotsMark {
  if (typeof slots === 'number') return slots;
  const names = [...slots].sort(byteOrder);
  const counted = slotNames(names.length);
  if (counted.every((name) => slots.includes(name))) return names.length;
  return `${names.length}#${sha256(new TextEncoder().encode(names.join('\n'))).slice(0, HASH_LENGTH)}`;
}

/** The mark in `value`; `undefined` when it is none. */
export function readSlotsMark(value: unknown): SlotsMark | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && value >= 1 ? value : undefined;
  return typeof value === 'string' && /^[1-9]\d{0,3}#[0-9a-f]{16}$/.test(value) ? value : undefined;
}
