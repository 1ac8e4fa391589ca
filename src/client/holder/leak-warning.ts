import { durationText } from '../../shared/duration';
import { MAX_TIMER_MS } from '../server/clock';
import type { Permit } from './permit';

/** Node's code for a warning of permits that their holder seems to have forgotten. */
const FORGOTTEN_WARNING = 'TEMPORAL_SEMAPHORE_FORGOTTEN';

/** Where a method was called. @param method the stack leaves out this method and what it calls */
export function callerOf(method: (...args: never[]) => unknown): Error {
  const place = new Error('Acquired');
  Error.captureStackTrace(place, method);
  return place;
}

/**
 * Warns once if, a lease after these permits were acquired, their holder has neither released them nor checked whether they are still
 * held. The holder has forgotten them, or would not notice their loss.
 * @param place where they were acquired
 */
export function warnIfForgotten(permits: readonly Permit[], place: Error): void {
  const [first, ...more] = permits;
  if (!first) return;
  const { leaseMs, workflowId } = first;
  const warn = () => {
    if (!permits.every(({ isForgotten }) => isForgotten)) return;
    const which = more.length > 0 ? `${workflowId} and ${more.length} more` : workflowId;
    process.emitWarning(
      `The permit ${which} was acquired ${durationText(leaseMs)} ago, a whole lease, and its holder has neither released it nor checked whether it is lost (permit.signal). It is renewed, and keeps its slot, until release() or the end of this process.`,
      { code: FORGOTTEN_WARNING, detail: place.stack?.replace(/^Error: /, '') },
    );
  };
  const timer = setTimeout(warn, Math.min(leaseMs, MAX_TIMER_MS)).unref();
  for (const permit of permits) permit.whenOver(() => clearTimeout(timer)); // it would keep permit and place for a whole lease
}
