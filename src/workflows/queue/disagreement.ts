import { log } from '@temporalio/workflow';
import type { SlotsMark } from '../../shared/protocol';
import { type Slots, slotsMark } from '../../shared/slots';

/** A run warns of at most this many different opinions. */
const MAX_MARKS = 10;

/** The slots that the waiters of this run take the resource to have. (Module state belongs to one Workflow.) */
const marks = new Set<SlotsMark>();
let last: Slots | undefined;

/** Logs that waiters disagree on the slots of the resource: once in a run for each opinion. */
export function warnOfDisagreement(resource: string, slots: Slots): void {
  if (isLast(slots) || marks.size >= MAX_MARKS) return;
  last = slots;
  const mark = slotsMark(slots);
  if (marks.has(mark)) return;
  marks.add(mark);
  if (marks.size < 2) return;
  log.warn('Acquirers disagree on the slots of a resource, so the larger number holds.', {
    resource,
    slots: [...marks].join(', '),
  });
}

/** Nearly all waiters name the same slots, and a thousand names are long to hash. */
function isLast(slots: Slots): boolean {
  if (typeof slots === 'number' || typeof last === 'number' || last === undefined) return slots === last;
  const names = last;
  return slots.length === names.length && slots.every((name, index) => name === names[index]);
}
