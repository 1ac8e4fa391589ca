import { workflowInfo } from '@temporalio/workflow';
import type { SemaphoreOptions } from '../../src/shared/options';
import { Semaphore as LibrarySemaphore } from '../../src/workflows/holder/semaphore';

/**
 * A semaphore made in a Workflow whose worker also has the permit Workflows, as those of the demo, the tests and the benches do: its permits
 * run on the Workflow's own task queue.
 */
export class Semaphore extends LibrarySemaphore {
  constructor(resource: string, options: SemaphoreOptions) {
    super(resource, { ...options, taskQueue: options.taskQueue ?? workflowInfo().taskQueue });
  }
}
