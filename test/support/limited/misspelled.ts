// A limit that would limit nothing.
import { limitWorkflows, Semaphore } from '../../../src/workflow';

export const workflows = { trainModle: { semaphore: new Semaphore('plugin-none', { capacity: 1, taskQueue: 'p' }) } };

export const interceptors = limitWorkflows(workflows);
