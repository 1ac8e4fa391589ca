// All limits of this application. The Workflow bundle, the worker, services and scripts import this file.
import type { Limits } from 'temporal-semaphore/worker';
import { limitWorkflows, Semaphore } from 'temporal-semaphore/workflow';
import type * as activities from './activities';
import type * as workflows from './workflows';

export const gpus = new Semaphore('gpus', { capacity: 3, perKey: 2 }); // 3 in all, 2 for each tenant
export const reports = new Semaphore('reports', { capacity: 1 });
export const vendor = new Semaphore('vendor', { capacity: 2 });

export const limits = {
  workflows: {
    trainModel: { semaphore: gpus, key: ({ tenant }) => tenant },
    renderVideo: { semaphore: gpus, key: ({ tenant }) => tenant },
    exportReport: { semaphore: reports, timeout: '1 hour' },
  },
  activities: { callVendor: { semaphore: vendor } },
} satisfies Limits<typeof workflows, typeof activities>;

export const interceptors = limitWorkflows(limits.workflows);
