/** How delays grow: the first is about `baseMs`, each next `factor` times as long, none over `maxMs`. */
export interface BackoffPolicy {
  readonly baseMs: number;
  readonly maxMs: number;
  readonly factor: number;
  /** Which part of a delay is left to chance, from 0 (none) to 1 (all of it). */
  readonly jitter: number;
}

/**
 * The delay before try number `attempt` (from 0): exponential, with jitter below it, so that contenders who failed
 * together do not come back together.
 *
 * @param random a number in [0, 1): in Workflow code `Math.random()`, which the SDK makes deterministic
 * @returns whole milliseconds, at least 1
 */
export function backoffMs(attempt: number, random: number, { baseMs, maxMs, factor, jitter }: BackoffPolicy): number {
  const full = Math.min(maxMs, baseMs * factor ** attempt);
  return Math.max(1, Math.round(full * (1 - jitter * random)));
}
