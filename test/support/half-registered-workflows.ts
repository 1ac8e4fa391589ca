/** A user's Workflows file that exports only one of the four permit Workflows. */
export { permitSlotWorkflow } from '../../src/workflows';
