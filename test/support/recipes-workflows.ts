/** The Workflows of the recipes, and beside them what the worker of their test needs. */
export * from '../../examples/recipes/workflows';
export * from '../../src/workflows';
export { PermitSlotWorkflow } from './workflows';
