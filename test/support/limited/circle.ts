// Workflows that call an activity under permits of the resource that limits it.
import { proxyActivities } from '@temporalio/workflow';
import type { Limits } from '../../../src/worker';
import { limitWorkflows, Semaphore, withPermits } from '../../../src/workflow';
import type * as activities from './activities';

const { callVendor } = proxyActivities<typeof activities>({ startToCloseTimeout: '1 minute' });

/** One permit more than a caller holds: the circle does not close at once. */
const api = new Semaphore('plugin-circle', { capacity: 2, taskQueue: 'plugin-permits' });
const other = new Semaphore('plugin-beside', { capacity: 1, taskQueue: 'plugin-permits' });

export async function limited(): Promise<string> {
  return await callVendor();
}

export async function underAnother(): Promise<string> {
  return await api.withPermit(() => other.withPermit(callVendor));
}

export async function underSet(): Promise<string> {
  return await withPermits([api, other], callVendor);
}

/** It holds a permit of another resource alone. */
export async function beside(): Promise<string> {
  await api.withPermit(async () => undefined);
  return await other.withPermit(callVendor);
}

export const limits = {
  workflows: { limited: { semaphore: api } },
  activities: { callVendor: { semaphore: api } },
} satisfies Limits<{ limited: typeof limited }, typeof activities>;

export const interceptors = limitWorkflows(limits.workflows);
