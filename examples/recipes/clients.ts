/** The recipes of docs/recipes.md that are clients. The page shows each region word for word, and test/examples/recipes.slow.test.ts runs it. */
import type { Client } from '@temporalio/client';
import type { Pool } from 'pg';
import { LineFullError, PermitLostError, PermitPool, SemaphoreClient } from 'temporal-semaphore/client';
import { PostgresFence } from 'temporal-semaphore/fencing';

// #region migration-lock
export async function migrate(client: Client, database: Pool, steps: string[]): Promise<void> {
  const lock = new SemaphoreClient(client, 'migrations', { capacity: 1 });
  const fence = new PostgresFence('migrations');
  await fence.migrate(database);
  await lock.withPermit(async (permit) => {
    for (const step of steps) {
      // A process that was stopped for longer than its lease wakes up here, and PostgreSQL refuses it.
      await fence.transaction(database, permit, async (transaction) => {
        await transaction.client.query(step);
      });
    }
  });
}
// #endregion

// #region singleton-cron
export async function nightly(client: Client, report: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
  const cron = new SemaphoreClient(client, 'nightly', { capacity: 1 });
  const permit = await cron.tryAcquire({ purpose: 'nightly report' });
  if (!permit) return false; // another machine is at it
  try {
    await report(permit.signal);
    return true;
  } finally {
    await permit.release();
  }
}
// #endregion

// #region newest-deploy
export async function deployNewest(
  client: Client,
  commit: string,
  deploy: (signal: AbortSignal) => Promise<void>,
): Promise<'deployed' | 'superseded'> {
  const production = new SemaphoreClient(client, 'production', { capacity: 1, fair: true }); // fair: none overtakes the one that waits
  try {
    const newest = { maxWaiting: 1, whenFull: 'drop-oldest', purpose: commit } as const;
    await production.withPermit(({ signal }) => deploy(signal), newest);
    return 'deployed';
  } catch (error) {
    if (error instanceof LineFullError && error.superseded) return 'superseded'; // a newer deploy waits; nothing has run
    throw error;
  }
}
// #endregion

// #region leader-election
export async function standForLeader(
  client: Client,
  lead: (signal: AbortSignal) => Promise<void>,
  stop: AbortSignal,
): Promise<void> {
  const leader = new SemaphoreClient(client, 'leader', { capacity: 1, lease: '10s' });
  while (!stop.aborted) {
    try {
      await leader.withPermit(({ signal }) => lead(AbortSignal.any([signal, stop])), { signal: stop });
    } catch (error) {
      if (!stop.aborted && !(error instanceof PermitLostError)) throw error; // lost: try again
    }
  }
}
// #endregion

// #region many-items
export async function askAll<T>(
  client: Client,
  questions: string[],
  ask: (question: string, signal: AbortSignal) => Promise<T>,
): Promise<T[]> {
  const answers = new SemaphoreClient(client, 'answers', { capacity: 3 });
  await using pool = new PermitPool(answers);
  return await Promise.all(questions.map((question) => pool.withPermit(({ signal }) => ask(question, signal))));
}
// #endregion

// #region shared-with-python
export async function withPythonsGpu<T>(client: Client, work: (slot: string) => Promise<T>): Promise<T> {
  // As in Python: Semaphore("python-gpus", capacity=3)
  const gpus = new SemaphoreClient(client, 'python-gpus', { capacity: 3 });
  return await gpus.withPermit(({ slot }) => work(slot));
}
// #endregion
