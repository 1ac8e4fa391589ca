// Limits of a semaphore without a task queue, whose permits the Workflows file would have to run.
import { limitWorkflows, Semaphore } from '../../../src/workflow';

export const workflows = { trainModel: { semaphore: new Semaphore('plugin-own-queue', { capacity: 1 }) } };

export const interceptors = limitWorkflows(workflows);
