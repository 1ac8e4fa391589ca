// Limits of a semaphore whose permits run on the worker's own task queue, so that its Workflows file would have to run them.
import { limitWorkflows, Semaphore } from '../../../src/workflow';

export const workflows = {
  trainModel: { semaphore: new Semaphore('plugin-own-queue', { capacity: 1, taskQueue: 'plugin-own' }) },
};

export const interceptors = limitWorkflows(workflows);
