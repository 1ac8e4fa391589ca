/** The recipes of docs/recipes.md that are Workflows. The page shows each region word for word, and test/examples/recipes.slow.test.ts runs it. */
import { proxyActivities } from '@temporalio/workflow';
import { PermitTimeoutError, Semaphore, withPermits } from 'temporal-semaphore/workflow';
import type { RecipeActivities } from './activities';

const { nextNumber, train, ask, readTable, writeTable, send, embed } = proxyActivities<RecipeActivities>({
  startToCloseTimeout: '1 minute',
  heartbeatTimeout: '10s',
  cancellationType: 'WAIT_CANCELLATION_COMPLETED', // the permit is held until the activity has stopped
});

// #region mutex
const invoices = new Semaphore('invoices', { capacity: 1 });

export async function numberInvoice(order: string): Promise<number> {
  return await invoices.withPermit(() => nextNumber(order));
}
// #endregion

// #region named-gpus
const gpus = new Semaphore('gpus', { slots: ['gpu-a', 'gpu-b', 'gpu-c'] });

export async function trainOn(dataset: string): Promise<string> {
  return await gpus.withPermit((permit) => train(dataset, permit.slot), { purpose: dataset });
}
// #endregion

// #region give-up
export async function trainUnlessBusy(dataset: string): Promise<string> {
  try {
    return await gpus.withPermit((permit) => train(dataset, permit.slot), { timeout: '5s' });
  } catch (error) {
    if (error instanceof PermitTimeoutError) return 'all GPUs are busy'; // nothing has run
    throw error;
  }
}
// #endregion

// #region vendor-api
const vendor = new Semaphore('vendor-api', { capacity: 20, perKey: 2, fair: true }); // fair: no caller gets past a pause

export async function askFor(tenant: string, question: string): Promise<string> {
  for (;;) {
    const answer = await vendor.withPermit(() => ask(tenant, question), { key: tenant });
    if (answer.status === 200) return answer.text;
    // 429: for as long as the vendor says, no caller gets a turn.
    await vendor.pauseUntil(new Date(Date.now() + answer.retryAfterMs), { reason: 'the vendor answered 429' });
  }
}
// #endregion

// #region read-write-lock
const READERS = 4; // how many may read at once
const table = new Semaphore('table', { capacity: READERS, fair: true }); // fair: no reader overtakes a writer

export async function read(): Promise<string[]> {
  return await table.withPermit(() => readTable());
}

export async function write(row: string): Promise<void> {
  await withPermits([{ of: table, permits: READERS }], () => writeTable(row));
}
// #endregion

// #region slow-lane
const slowLane = new Semaphore('slow-lane', { capacity: 2, pace: { every: '1 second' } });

export async function sendSlowly(message: string): Promise<void> {
  await slowLane.withPermit(() => send(message));
}
// #endregion

// #region many-items
const embeddings = new Semaphore('embeddings', { capacity: 3 });

export async function embedAll(pages: number[]): Promise<void> {
  await Promise.all(pages.map((page) => embeddings.withPermit(() => embed(page))));
}

export async function embedChunks(chunks: number[][]): Promise<void> {
  const embedChunk = async (pages: number[]) => {
    for (const page of pages) await embed(page);
  };
  await Promise.all(chunks.map((pages) => embeddings.withPermit(() => embedChunk(pages))));
}
// #endregion
