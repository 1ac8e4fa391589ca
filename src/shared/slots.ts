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
