/** How delays grow: the first is about `baseMs`, each further one `factor` times as long, and none is above `maxMs`. */
export interface BackoffPolicy {
  readonly baseMs: number;
  readonly maxMs: number;
  readonly factor: number;
  /** The random part of a delay, from 0 (none of it) to 1 (all of it). */
  readonly jitter: number;
}

/**
 * The delay before try number `attempt` (from 0). The delay grows exponentially; jitter shortens it, so that contenders that failed
 * together do not come back together.
 *
 * @param random a number in [0, 1): in Workflow code `Math.random()`, which the SDK makes deterministic
 * @returns whole milliseconds, at least 1
 */
export function backoffMs(attempt: number, random: number, { baseMs, maxMs, factor, jitter }: BackoffPolicy): number {
  const full = Math.min(maxMs, baseMs * factor ** attempt);
  return Math.max(1, Math.round(full * (1 - jitter * random)));
}
