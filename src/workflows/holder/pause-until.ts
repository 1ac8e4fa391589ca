import { ApplicationFailure } from '@temporalio/workflow';
import type { OverrideInput } from '../../shared/operator-protocol';
import type { ResolvedSemaphore } from '../../shared/options';
import { queueId } from '../../shared/permit-id';
import { startQueue } from '../queue/start-queue';
import { deliver, overrideSignal } from '../signals';

/** A queue that ends at this very moment takes no order. More than one in a row is not to be expected. */
const ATTEMPTS = 5;

/** Has the queue pause the pool until then. Without a queue, this starts one. It resolves when the server has the order. */
export async function pauseUntil(
  { resource, compactSlots: slots, taskQueue }: ResolvedSemaphore,
  { pauseUntilMs, reason }: Pick<OverrideInput, 'pauseUntilMs' | 'reason'>,
): Promise<void> {
  const order: OverrideInput = { slots, pauseUntilMs, reason };
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if ((await deliver({ workflowId: queueId(resource) }, overrideSignal, order)) === 'delivered') return;
    await startQueue(resource, taskQueue);
  }
  throw ApplicationFailure.nonRetryable(`The wait queue of "${resource}" has not taken the pause.`, 'NoAnswerError');
}
