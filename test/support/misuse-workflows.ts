import { ApplicationFailure } from '@temporalio/workflow';
import { Semaphore } from '../../scripts/support/own-queue-semaphore';
import { withPermits } from '../../src/workflow';

/** Uses a semaphore wrongly in each way, and tells by what error each was refused. */
export async function misuses(resource: string): Promise<string[]> {
  const semaphore = new Semaphore(resource, { capacity: 1 });
  const soon = new Date(Date.now() + 60_000);
  const uses: (() => Promise<unknown>)[] = [
    () => semaphore.withPermit(undefined as never),
    () => semaphore.withPermit({ timeout: '1s' } as never, (async () => 1) as never),
    () => withPermits([semaphore], undefined as never),
    () => withPermits([{ of: semaphore, permit: 2 } as never], async () => 1),
    () => semaphore.tryAcquire({ timeout: '5s' } as object),
    () => semaphore.pauseUntil(soon, { reson: '429' } as object),
    async () => new Semaphore(resource, { capacity: 1, lease: 30 }),
  ];
  const refusals: string[] = [];
  for (const use of uses) {
    const error: unknown = await use().catch((refused: unknown) => refused);
    refusals.push(error instanceof ApplicationFailure ? `${error.type}: ${error.message}` : `accepted: ${error}`);
  }
  return refusals;
}
