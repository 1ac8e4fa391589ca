/** What a stranger's worker may run as our Workflows: it answers queries with anything. */
export { impostor as permitSlotWorkflow, impostor as waitQueueWorkflow } from './workflows';
