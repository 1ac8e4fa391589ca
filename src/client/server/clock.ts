import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds on a clock that never jumps. It goes on while the process is stopped, and stands still while the machine sleeps. */
export function monotonicMs(): number {
  return performance.now();
}

/** The longest that one timer of Node can be. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Waits for that time, or until the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // Many acquires may share a signal, and all pause while the server is away. Each listener goes with its pause.
  setMaxListeners(0, signal);
  try {
    await delay(Math.min(Math.max(0, ms), MAX_TIMER_MS), undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Waits until the work is done or has failed, but no longer than this. */
export async function soon(work: Promise<unknown>, withinMs: number): Promise<void> {
  const over = new AbortController();
  await Promise.race([Promise.allSettled([work]), pause(withinMs, over.signal)]);
  over.abort();
}
