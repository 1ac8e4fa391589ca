import { pause } from './clock';
import { onAbort } from './on-abort';

// A process often runs the permits that it holds: `SemaphorePlugin` runs a permit worker alongside another worker. Once the permit worker has
// ended, perhaps no worker carries out a release until the next process starts, and the server lists pollers that are gone for minutes.

/** How long a release then waits for a worker of another process. */
const ELSEWHERE_MS = 1_000;

/** The permit workers of this process, by namespace and task queue. */
const own = new Map<string, { count: number; ended: AbortController }>();

/** A permit worker of this process begins to run. @returns a function to call when it is about to end */
export function ownWorkerBegins(namespace: string, taskQueue: string): () => void {
  const key = keyOf(namespace, taskQueue);
  const known = own.get(key);
  const workers = known && !known.ended.signal.aborted ? known : { count: 0, ended: new AbortController() };
  own.set(key, workers);
  workers.count++;
  let hasEnded = false;
  return () => {
    if (hasEnded) return;
    hasEnded = true;
    if (--workers.count === 0) workers.ended.abort();
  };
}

/** Resolves when this process has run the permits of the task queue and runs them no more, and no other worker has been quick either. */
export async function ownWorkerGone(namespace: string, taskQueue: string, over: AbortSignal): Promise<void> {
  const ended = own.get(keyOf(namespace, taskQueue))?.ended.signal;
  if (!ended) return await new Promise(() => undefined);
  await new Promise<void>((resolve) => {
    over.addEventListener('abort', onAbort(ended, resolve), { once: true });
  });
  await pause(ELSEWHERE_MS, over);
}

function keyOf(namespace: string, taskQueue: string): string {
  return JSON.stringify([namespace, taskQueue]);
}
