// What the bench's worker registers: the library, and polling to compare it with.
import { proxyActivities, sleep } from '@temporalio/workflow';
import { type Permit, Semaphore } from '../src/workflow';

export * from '../src/workflow';

export interface ConsumerInput {
  resource: string;
  capacity: number;
  holdMs: number;
  /** Where permits run. @default the consumer's own */
  permitQueue?: string;
  fair?: boolean;
}

const { hold } = proxyActivities<{ hold(holdMs: number): Promise<void> }>({ startToCloseTimeout: '10 minutes' });

const POLL_EVERY_MS = 1_000;

/** A consumer that waits by parking. */
export async function parkingConsumer({ resource, capacity, holdMs, permitQueue, fair }: ConsumerInput): Promise<void> {
  await holdUnder(await new Semaphore(resource, { capacity, taskQueue: permitQueue, fair }).acquire(), holdMs);
}

/** The same as this pattern is usually published: try every slot, sleep a second, try again. */
export async function pollingConsumer({ resource, capacity, holdMs }: ConsumerInput): Promise<void> {
  const pool = new Semaphore(resource, { capacity });
  let permit = await pool.tryAcquire();
  while (!permit) {
    await sleep(POLL_EVERY_MS);
    permit = await pool.tryAcquire();
  }
  await holdUnder(permit, holdMs);
}

/** What both do alike: only the waiting is compared. */
async function holdUnder(permit: Permit, holdMs: number): Promise<void> {
  try {
    if (holdMs > 0) await hold(holdMs);
  } finally {
    await permit.release();
  }
}
