import type { Duration } from '@temporalio/common';
import { refuse } from './invalid-options';
import type { Items, LaneRules } from './lanes';
import { type AcquireOptions, durationMs } from './options';

/** How `mapWithPermits` works through its items, in Workflows and in clients. */
export interface MapOptions extends Pick<AcquireOptions, 'priority' | 'purpose'> {
  /** How many items run at once at most, each under a permit. @default the number of slots */
  concurrency?: number;
  /** `stop` rejects with the first error, `collect` gives an outcome for each item, as `Promise.allSettled`. @default 'stop' */
  onError?: 'stop' | 'collect';
}

/** What `mapWithPermits` resolves with: results, or outcomes where errors are collected. */
export type MapOutcome<R, Options> = Options extends { onError: 'collect' } ? PromiseSettledResult<R> : R;

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolveMap(
  items: unknown,
  fn: unknown,
  options: MapOptions & { chunk?: number; reuseFor?: Duration; cursor?: number },
  defaults: { concurrency: number; chunk: number; reuseForMs: number },
): LaneRules {
  if (!isItems(items)) refuse('items', 'an iterable, an async iterable, or a function that gives one', items);
  if (typeof fn !== 'function') refuse('fn', 'a function', fn);
  const { concurrency = defaults.concurrency, chunk = defaults.chunk, onError = 'stop', cursor = 0 } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > defaults.concurrency) {
    refuse('concurrency', `a whole number from 1 to ${defaults.concurrency}, the most permits there are`, concurrency);
  }
  if (chunk !== Number.POSITIVE_INFINITY && !(Number.isInteger(chunk) && chunk >= 1)) {
    refuse('chunk', 'a whole number from 1', chunk);
  }
  if (onError !== 'stop' && onError !== 'collect') refuse('onError', '"stop" or "collect"', onError);
  if (!Number.isSafeInteger(cursor) || cursor < 0) refuse('cursor', 'a whole number from 0', cursor);
  const reuseForMs = durationMs('reuseFor', options.reuseFor, 1) ?? defaults.reuseForMs;
  return { concurrency, chunk, reuseForMs, onError, from: cursor };
}

function isItems(items: unknown): items is Items<unknown> {
  if (typeof items === 'function') return true;
  return typeof items === 'object' && items !== null && (Symbol.iterator in items || Symbol.asyncIterator in items);
}

/** What the caller gets of the outcomes: with `stop` there are only results, for the first failure was thrown. */
export function resultsOf<R>(outcomes: readonly PromiseSettledResult<R>[], { onError }: LaneRules): unknown[] {
  if (onError === 'collect') return [...outcomes];
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<R>).value);
}
