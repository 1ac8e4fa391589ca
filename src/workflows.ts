/**
 * The four Workflows that a worker needs so that permits, queues and waiters run on its task queue, and nothing else. In
 * your Workflows file: `export * from 'temporal-semaphore/workflows'`. All are needed: a queue whose Workflow the
 * worker does not have fails its tasks again and again, and those who wait in it are served late.
 *
 * @module
 */

import { setWorkflowOptions } from '@temporalio/workflow';
import { pacedPermitWorkflow, permitSlotWorkflow } from './workflows/permit/permit-slot';
import { awaitTurnWorkflow } from './workflows/queue/await-turn';
import { waitQueueWorkflow } from './workflows/queue/wait-queue';

/**
 * A queue serves the callers of every version, and outlives the workers of the one that started it. So versioned workers run these
 * Workflows in their current version, whatever their default is. Workers without versions ignore this.
 */
const IN_CURRENT_VERSION = { versioningBehavior: 'AUTO_UPGRADE' } as const;

for (const workflow of [permitSlotWorkflow, pacedPermitWorkflow, waitQueueWorkflow, awaitTurnWorkflow]) {
  setWorkflowOptions(IN_CURRENT_VERSION, workflow as () => Promise<unknown>);
}

export { awaitTurnWorkflow, pacedPermitWorkflow, permitSlotWorkflow, waitQueueWorkflow };
