// Bundled by test/workflows/workflow-bundle.slow.test.ts: all that is meant for Workflow code.
export * as fencing from '../../src/fencing-workflow';
export * as workflow from '../../src/workflow';
export * as workflows from '../../src/workflows';
