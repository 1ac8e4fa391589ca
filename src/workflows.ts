/**
 * The four Workflows that a worker needs so that permits, queues and waiters run on its task queue, and nothing else. In
 * your Workflows file: `export * from 'temporal-semaphore/workflows'`. All are needed: a queue whose Workflow the
 * worker does not have fails its tasks again and again, and those who wait in it are served late.
 *
 * @module
 */
import './shared/oldest-sdk';

export { pacedPermitWorkflow, permitSlotWorkflow } from './workflows/permit/permit-slot';
export { awaitTurnWorkflow } from './workflows/queue/await-turn';
export { waitQueueWorkflow } from './workflows/queue/wait-queue';
