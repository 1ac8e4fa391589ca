// What the demo's worker registers: the library's Workflows and the example.
export * from '../../src/workflows';
export { exampleConsumer } from './example-workflow';
