/** A user's Workflows file that exports all permit Workflows but one: it lacks `pacedPermitWorkflow`. */
export { awaitTurnWorkflow, permitSlotWorkflow, waitQueueWorkflow } from '../../../src/workflows';
export * from './workflows';
