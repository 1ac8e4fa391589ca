import { CancellationScope, isCancellation, proxyActivities } from '@temporalio/workflow';
import { Semaphore } from '../../../../scripts/support/own-queue-semaphore';
import { currentPermit } from '../../../../src/fencing-workflow';
import {
  type AcquireOptions,
  PermitLostError,
  PermitTimeoutError,
  type SemaphoreOptions,
} from '../../../../src/workflow';
import { onAcquireStep } from './acquire-steps';
import type { WorkInput } from './application';

export * from '../../../../src/workflows';

export interface HolderInput {
  acquire: string;
  resource: string;
  semaphore: SemaphoreOptions;
  options: AcquireOptions;
  holdMs: number;
  /** Cancels the acquire as it gives the server this command, counted from 1, or just after. */
  cancelAt?: { step: number; after: boolean };
}

export type HolderResult = 'held' | 'lost' | 'timeout' | 'cancelled';

const { work } = proxyActivities<{ work(input: WorkInput): Promise<void> }>({
  startToCloseTimeout: '1 minute',
  heartbeatTimeout: '3s',
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  retry: { initialInterval: '100ms', maximumAttempts: 3 },
});

/** A user's Workflow that is limited, as `interceptor-workflows` has it: it knows nothing of permits, but tells which it has. */
export async function chaosLimited({ acquire, holdMs }: HolderInput): Promise<HolderResult> {
  const { resource = '', slot = '', runId = '' } = currentPermit() ?? {};
  await work({ acquire, holdMs, permit: { resource, slot, runId } });
  return 'held';
}

/** A user's Workflow: works under a permit, in an activity that carries its fencing token. */
export async function chaosHolder(input: HolderInput): Promise<HolderResult> {
  const { acquire, resource, semaphore, options, holdMs, cancelAt } = input;
  const scope = new CancellationScope();
  onAcquireStep(cancelAt && { ...cancelAt, cancel: () => scope.cancel() });
  try {
    await scope.run(async () => {
      await new Semaphore(resource, semaphore).withPermit(async ({ slot, runId }) => {
        onAcquireStep(undefined);
        await work({ acquire, holdMs, permit: { resource, slot, runId } });
      }, options);
    });
    return 'held';
  } catch (error) {
    if (error instanceof PermitLostError) return 'lost';
    if (error instanceof PermitTimeoutError) return 'timeout';
    if (isCancellation(error) && cancelAt) return 'cancelled';
    throw error;
  } finally {
    onAcquireStep(undefined);
  }
}
