import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PERMIT_WORKFLOW, QUEUE_WORKFLOW } from '../src/shared/protocol';
import { permitSlotWorkflow, waitQueueWorkflow } from '../src/workflow';

test('the Workflows go by the names that other languages start them by', () => {
  assert.equal(permitSlotWorkflow.name, PERMIT_WORKFLOW);
  assert.equal(waitQueueWorkflow.name, QUEUE_WORKFLOW);
});
