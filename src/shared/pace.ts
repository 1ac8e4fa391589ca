import type { Duration } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time';
import { refuse } from './invalid-options';

/** How often a slot is given. */
export interface Pace {
  /** The time from one start on a slot to the next, at least; from 1 ms. */
  every: Duration;
}

/** How much longer than its pace a permit must be able to run. */
const SPARE_MS = 60_000;

/** Checks a pace, and gives it in milliseconds. @throws InvalidOptionsError */
export function resolvePace(pace: Pace | undefined, mostMs: number): number | undefined {
  if (pace === undefined) return undefined;
  if (typeof pace !== 'object' || pace === null) refuse('pace', 'an object such as { every: "1s" }', pace);
  let ms = Number.NaN;
  try {
    ms = Math.ceil(msToNumber(pace.every));
  } catch {
    // Refused below.
  }
  const longestMs = mostMs - SPARE_MS;
  if (ms >= 1 && ms <= longestMs) return ms;
  return refuse('pace.every', `a duration of 1 ms to ${longestMs} ms, a minute less than maxHold`, pace.every);
}

/** Refuses a pace where permits are reused, for a reused permit is not taken again. */
export function refusePace(paceMs: number | undefined): void {
  if (paceMs !== undefined)
    refuse('semaphore', 'one without a pace: permits are reused here', `a pace of ${paceMs} ms`);
}
