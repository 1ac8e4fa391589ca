// The limits of an application, as docs/limit-workflows.md shows them.
import type { Limits } from '../../../src/worker';
import { limitWorkflows, Semaphore } from '../../../src/workflow';
import type * as activities from './activities';
import type * as workflows from './workflows';

export const gpus = new Semaphore('plugin-gpus', { capacity: 3, perKey: 2, taskQueue: 'plugin-permits' });
export const vendor = new Semaphore('plugin-vendor', { capacity: 2, taskQueue: 'plugin-permits' });

export const limits = {
  workflows: { trainModel: { semaphore: gpus, key: ({ tenant }) => tenant, timeout: '1 hour' } },
  activities: { callVendor: { semaphore: vendor } },
} satisfies Limits<typeof workflows, typeof activities>;

export const interceptors = limitWorkflows(limits.workflows);
