import { setTimeout as delay } from 'node:timers/promises';
import type { Worker } from '@temporalio/worker';

/** How soon your worker ends when the permit worker has ended before yours began. */
const FOLLOW_MS = 100;

/**
 * Runs a permit worker beside another worker, for as long as that runs. When the permit worker ends, the other shuts down; when it can't
 * be made or fails, this rejects with the reason.
 * @param next runs the other worker
 */
export async function runBeside(
  worker: Worker,
  next: () => Promise<void>,
  create: () => Promise<Worker>,
): Promise<void> {
  let hasEnded = false;
  const follow = async () => {
    while (!hasEnded && worker.getState() === 'INITIALIZED') await delay(FOLLOW_MS); // other plugins may come before its start
    if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  const permits = await create().catch(async (error) => {
    // A worker that never ran would keep the connection from being closed.
    const ended = next().finally(() => {
      hasEnded = true;
    });
    await Promise.all([ended, follow()]);
    throw error;
  });
  const running = permits.run();
  running.then(follow, follow);
  try {
    await next();
  } finally {
    hasEnded = true;
    if (permits.getState() === 'RUNNING') permits.shutdown();
    await running;
  }
}
