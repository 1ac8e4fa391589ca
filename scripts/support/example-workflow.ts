import { proxyActivities } from '@temporalio/workflow';
import type { SemaphoreOptions } from '../../src/shared/options';
import { Semaphore } from './own-queue-semaphore';

export interface ExampleInput {
  /** @default 'gpu-pool' */
  resource?: string;
  /** @default capacity 3 */
  semaphore?: SemaphoreOptions;
  /** How long the work takes, in milliseconds. */
  holdMs: number;
  /** @default 'example work' */
  purpose?: string;
}

export interface ExampleActivities {
  /** Works on one GPU for `holdMs`, heartbeating, and gives back what it computed. */
  useGpu(work: { slot: string; fencingToken: string; holdMs: number }): Promise<string>;
}

const { useGpu } = proxyActivities<ExampleActivities>({
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: '10s',
});

/** The consumer of the demo: takes a GPU, works on it, and gives it back. */
export async function exampleConsumer({ resource, semaphore, holdMs, purpose }: ExampleInput): Promise<string> {
  const gpus = new Semaphore(resource ?? 'gpu-pool', semaphore ?? { capacity: 3 });
  return await gpus.withPermit(
    async (permit) => await useGpu({ slot: permit.slot, fencingToken: permit.runId, holdMs }),
    { purpose: purpose ?? 'example work' },
  );
}
