import type { ResolvedSemaphore } from './options';

/** The least time between two starts of one Workflow ID, where the server has such a rule: Temporal Cloud does. */
export const START_INTERVAL_MS = 1_000;

/** `<name>.<account>`, as Temporal Cloud names its namespaces. A server of one's own may have such a name too. */
const CLOUD_NAMESPACE = /^[a-z][a-z0-9-]{0,37}[a-z0-9]\.[a-z0-9]{5,6}$/;

/**
 * The least pace of each permit in this namespace; `undefined`: it needs none. A start that the server refuses by its rule hangs for
 * seconds, with all claims of the slot beside it. While a permit runs, the server answers the next claim at once. So a permit there keeps
 * its slot until the next start may succeed.
 */
export function leastPaceMs(namespace: string): number | undefined {
  return CLOUD_NAMESPACE.test(namespace) ? START_INTERVAL_MS : undefined;
}

/**
 * The pace of a permit: its semaphore's, or the least that the server needs. A holder that may have to give way keeps none, nor does a
 * permit that the server would end before it can tell its queue.
 */
export function paceMsOf(
  { paceMs = 0, unpaced, maxHoldMs }: Pick<ResolvedSemaphore, 'paceMs' | 'unpaced' | 'maxHoldMs'>,
  namespace: string,
  isPreemptible: boolean,
): number | undefined {
  const mayKeep = !unpaced && !isPreemptible && maxHoldMs >= 2 * START_INTERVAL_MS;
  const leastMs = (mayKeep && leastPaceMs(namespace)) || 0;
  return Math.max(paceMs, leastMs) || undefined;
}
