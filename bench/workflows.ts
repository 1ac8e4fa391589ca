// What the bench's worker registers: the library, and polling to compare it with.
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  CancellationScope,
  ParentClosePolicy,
  proxyActivities,
  sleep,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import { permitId } from '../src/shared/permit-id';
import { shuffle } from '../src/shared/shuffle';
import { slotNames } from '../src/shared/slots';
import { permitSlotWorkflow, Semaphore } from '../src/workflow';
import { releaseSignal } from '../src/workflows/signals';

export * from '../src/workflow';

export interface ConsumerInput {
  resource: string;
  capacity: number;
  holdMs: number;
  fair?: boolean;
}

const { hold } = proxyActivities<{ hold(holdMs: number): Promise<void> }>({ startToCloseTimeout: '10 minutes' });

const POLL_EVERY_MS = 1_000;

/** A consumer that waits by parking. */
export async function parkingConsumer({ resource, capacity, holdMs, fair }: ConsumerInput): Promise<void> {
  await new Semaphore(resource, { capacity, fair }).withPermit(async () => {
    if (holdMs > 0) await hold(holdMs);
  });
}

/** The same as this pattern is usually published: try every slot, sleep a second, try again. */
export async function pollingConsumer({ resource, capacity, holdMs }: ConsumerInput): Promise<void> {
  const permit = await poll(resource, capacity);
  try {
    if (holdMs > 0) await hold(holdMs);
  } finally {
    await CancellationScope.nonCancellable(async () => {
      await permit.signal(releaseSignal);
      await permit.result();
    });
  }
}

async function poll(resource: string, capacity: number) {
  const { workflowId, runId } = workflowInfo();
  for (;;) {
    for (const slot of shuffle(slotNames(capacity), Math.random)) {
      try {
        return await startChild(permitSlotWorkflow, {
          workflowId: permitId({ resource, slot }),
          args: [{ leaseMs: 600_000, holder: { workflowId, runId } }],
          parentClosePolicy: ParentClosePolicy.TERMINATE,
        });
      } catch (error) {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      }
    }
    await sleep(POLL_EVERY_MS);
  }
}
