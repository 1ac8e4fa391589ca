import { proxyActivities } from '@temporalio/workflow';
import { Semaphore } from 'temporal-semaphore/workflow';
import type { LedgerActivities } from './activities';

export * from 'temporal-semaphore/workflows';

/** One slot, and a short lease: a holder that is silent for two seconds loses it. */
const ledger = new Semaphore('ledger', { capacity: 1, lease: '2s' });

const { append } = proxyActivities<LedgerActivities>({ startToCloseTimeout: '1 minute' });

/** Appends the lines under a permit. Nothing here mentions a token: the interceptors carry it to the activity. */
export async function appendLines(lines: string[]): Promise<void> {
  await ledger.withPermit(async () => {
    for (const line of lines) await append(line);
  });
}
