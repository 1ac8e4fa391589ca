// As docs/production.md has it for versioned workers that run the permits of their own task queue.
import { setWorkflowOptions } from '@temporalio/workflow';
import * as permits from '../../src/workflows';

for (const workflow of Object.values<(...args: never[]) => Promise<unknown>>(permits)) {
  setWorkflowOptions({ versioningBehavior: 'AUTO_UPGRADE' }, workflow);
}

export * from './workflows';
