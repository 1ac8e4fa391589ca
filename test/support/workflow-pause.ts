import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '@temporalio/client';
import { canPauseWorkflows, isQuiet, pauseWorkflow as pauseNow } from '../../scripts/support/workflow-pause';
import { eventually, type Temporal } from './temporal';

export { unpauseWorkflow } from '../../scripts/support/workflow-pause';

/** Registers tests that pause Workflows on the server. They are left out where it can't. */
export function pausingOn(temporal: Temporal): (name: string, body: () => Promise<void>) => void {
  return (name, body) => {
    test(name, async (t) => {
      if (await canPauseWorkflows(temporal.client)) await body();
      else t.skip('This needs Workflow Pause: server 1.32 or later with frontend.WorkflowPauseEnabled=true');
    });
  };
}

/** Pauses a Workflow, by Workflow Pause, as soon as that leaves its history readable. */
export async function pauseWorkflow(client: Client, workflowId: string): Promise<void> {
  await eventually(async () =>
    assert.ok(await isQuiet(client, workflowId), `a Workflow Task of ${workflowId} is pending`),
  );
  await pauseNow(client, workflowId);
}
