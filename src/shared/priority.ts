import type { Priority } from '@temporalio/common';
import { refuse } from './check';
import { byteLength } from './utf8';

/** Temporal's default priority, the middle of its five. */
export const DEFAULT_PRIORITY_KEY = 3;

/** The priority of a ticket or a caller. Absent and 0 are the default, as in Temporal. */
export function priorityOf({ priorityKey }: { readonly priorityKey?: number }): number {
  return priorityKey || DEFAULT_PRIORITY_KEY;
}

/** The greatest that Temporal's API has room for. */
const MAX_PRIORITY_KEY = 2 ** 31 - 1;

/** The server's own limit. */
const MAX_FAIRNESS_KEY_BYTES = 64;

export function isFairnessKey(value: unknown): value is string {
  return typeof value === 'string' && byteLength(value) <= MAX_FAIRNESS_KEY_BYTES;
}

/** Checks Temporal's own bounds. An absent or zero field means "inherit", as in Temporal. */
export function checkPriority(priority: unknown): Priority {
  if (typeof priority !== 'object' || priority === null) refuse('priority', "Temporal's Priority", priority);
  const { priorityKey = 0, fairnessKey = '', fairnessWeight = 0 } = priority as Priority;
  if (!Number.isInteger(priorityKey) || priorityKey < 0 || priorityKey > MAX_PRIORITY_KEY) {
    refuse('priority.priorityKey', `a whole number from 1 to ${MAX_PRIORITY_KEY}`, priorityKey);
  }
  if (!isFairnessKey(fairnessKey)) {
    refuse('priority.fairnessKey', `a string of at most ${MAX_FAIRNESS_KEY_BYTES} bytes`, fairnessKey);
  }
  const isWeight = typeof fairnessWeight === 'number' && fairnessWeight >= 0.001 && fairnessWeight <= 1_000;
  if (fairnessWeight !== 0 && !isWeight) {
    refuse('priority.fairnessWeight', 'a number from 0.001 to 1000', fairnessWeight);
  }
  return priority as Priority;
}
