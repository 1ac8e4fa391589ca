/** How delays grow: the first is about `baseMs`, each next twice as long, none over `maxMs`. */
export interface BackoffPolicy {
  readonly baseMs: number;
  readonly maxMs: number;
}

/**
 * The delay before try number `attempt` (from 0): exponential with "equal jitter", that is between half of the full
 * delay and all of it, so that contenders who failed together do not come back together.
 *
 * @param random a number in [0, 1): in Workflow code `Math.random()`, which the SDK makes deterministic
 * @returns whole milliseconds, at least 1
 */
export function backoffMs(attempt: number, random: number, { baseMs, maxMs }: BackoffPolicy): number {
  const full = Math.min(maxMs, baseMs * 2 ** attempt);
  return Math.max(1, Math.round(full / 2 + (full / 2) * random));
}
