import type { ResolvedAcquire, ResolvedSemaphore } from './options';

/**
 * How many permits of the semaphore the caller holds itself, if it would wait for them indefinitely; 0 if it would not. Permits are
 * not reentrant, because each has one fencing token: a holder of a permit does not get another for free.
 *
 * @param held the resources of the permits under which the calling code runs
 * @param wanted how many permits the caller asks for
 */
export function waitsForItself(
  { resource, slots }: Pick<ResolvedSemaphore, 'resource' | 'slots'>,
  { timeoutMs }: Pick<ResolvedAcquire, 'timeoutMs'>,
  held: readonly string[],
  wanted = 1,
): number {
  const own = held.filter((it) => it === resource).length;
  return timeoutMs === Number.POSITIVE_INFINITY && own > 0 && own + wanted > slots.length ? own : 0;
}
