/** A user's Workflows file that forgets two of the three. */
export { permitSlotWorkflow } from '../../src/workflows';
