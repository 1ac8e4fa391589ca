import type { ResolvedSemaphore } from './options';

/** The least time between two starts of one Workflow ID, if the server has such a rule, as Temporal Cloud does. */
export const START_INTERVAL_MS = 1_000;

/** `<name>.<account>`, as Temporal Cloud names its namespaces. A self-hosted server may have such a namespace too. */
const CLOUD_NAMESPACE = /^[a-z][a-z0-9-]{0,37}[a-z0-9]\.[a-z0-9]{5,6}$/;

/**
 * The least pace of each permit in this namespace; `undefined`: permits need none. A start that the server's rule refuses hangs for
 * seconds, and so do all other claims of the slot. While a permit runs, the server answers the next claim at once. So a permit in such a
 * namespace keeps its slot until the next start may succeed.
 */
export function leastPaceMs(namespace: string): number | undefined {
  return CLOUD_NAMESPACE.test(namespace) ? START_INTERVAL_MS : undefined;
}

/**
 * The pace of a permit: its semaphore's, or the least that the server needs. A permit has no pace if its holder may have to give way, or if
 * the server would end the permit before it can notify its queue.
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
