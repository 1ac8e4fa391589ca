import { type SlotsMark, slotsMark } from '../../shared/agreement';
import type { Ticket } from '../../shared/protocol';
import type { SlotInspection, SlotsBelief } from './inspection';

/**
 * The slots that holders and waiters take a resource to have, where two of them differ: the belief of most of them first. An
 * operator's `resize` is none: it changes what is in use, and not what acquirers were deployed with.
 */
export function disagreement(
  slots: readonly SlotInspection[],
  tickets: readonly Ticket[],
): readonly SlotsBelief[] | undefined {
  const beliefs = new Map<SlotsMark, SlotsBelief>();
  const add = (mark: SlotsMark, who: string) => {
    const { count = 0, by = who } = beliefs.get(mark) ?? {};
    beliefs.set(mark, { slots: mark, count: count + 1, by });
  };
  for (const { permit } of slots) {
    if (permit?.slots !== undefined) add(permit.slots, permit.holder.workflowId ?? permit.holder.identity ?? '');
  }
  const marks = new Map<string, SlotsMark>(); // a thousand waiters of one pool name the same slots
  for (const { slots, identity, waiter } of tickets) {
    const names = String(slots);
    const mark = marks.get(names) ?? slotsMark(slots);
    marks.set(names, mark);
    add(mark, identity ?? waiter.workflowId);
  }
  if (beliefs.size < 2) return undefined;
  return [...beliefs.values()].sort((a, b) => b.count - a.count);
}
