import { refuse } from './invalid-options';
import { MAX_REASON_LENGTH } from './limits';
import { MAX_DURATION_MS } from './options';

/** When a pause is to end, in epoch milliseconds. @throws InvalidOptionsError for a time in the past, or more than 10 years ahead */
export function pauseEndMs(until: Date, nowMs: number): number {
  const untilMs = typeof until?.getTime === 'function' ? until.getTime() : Number.NaN;
  if (untilMs > nowMs && untilMs <= nowMs + MAX_DURATION_MS) return untilMs;
  return refuse('until', 'a Date in the future, at most 10 years ahead', until);
}

/** @throws InvalidOptionsError */
export function checkReason(reason: string | undefined): void {
  if (reason === undefined || (typeof reason === 'string' && reason.length <= MAX_REASON_LENGTH)) return;
  refuse('reason', `a string of at most ${MAX_REASON_LENGTH} characters`, reason);
}
