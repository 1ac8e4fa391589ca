const LEAST_MS = 1_000;
export const MOST_MS = 240_000;
/** All slots of a pool together are asked at most 50 times a second. */
const LEAST_MS_PER_SLOT = 20;

/**
 * When the queue asks about a held slot again: after a quarter of the time that it has been held, within bounds. A permit that an
 * operator terminates, or that the server ends by `maxHold`, cannot say that it closed; all others of ours do. Each question is a signal to
 * the permit, which takes only 10,000 of them in its life, and ten events in the queue.
 */
export function probeAfterMs(heldMs: number, slots: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, LEAST_MS_PER_SLOT * slots, heldMs / 4));
}
