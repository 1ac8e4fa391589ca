import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Client } from '@temporalio/client';
import { eventually, type Temporal } from './temporal';

/**
 * Registers tests that pause Workflows on the server. They are left out where its flag is off, and before 1.32: earlier servers may let a
 * paused Workflow run on (temporalio/temporal#10239).
 */
export function pausingOn(temporal: Temporal): (name: string, body: () => Promise<void>) => void {
  return (name, body) => {
    test(name, async (t) => {
      const { workflowService, options } = temporal.client;
      const { namespaceInfo } = await workflowService.describeNamespace({ namespace: options.namespace });
      const { serverVersion = '' } = await workflowService.getSystemInfo({});
      const [major = 0, minor = 0] = serverVersion.split('.').map(Number);
      const isNew = major > 1 || minor >= 32;
      if (isNew && namespaceInfo?.capabilities?.workflowPause) await body();
      else t.skip('This needs Workflow Pause: server 1.32 or later with frontend.WorkflowPauseEnabled=true');
    });
  };
}

/** Events of a run whose first Workflow Task is done: started, scheduled, started, completed. */
const FIRST_TASK = 4;

/**
 * Pauses a Workflow, by Workflow Pause, while no Workflow Task of it waits for a worker. Server 1.32 fails such a task, and the SDK (1.24.0)
 * then can't read the history any more.
 */
export async function pauseWorkflow({ workflow, workflowService, options }: Client, workflowId: string): Promise<void> {
  await eventually(async () => {
    const { raw, historyLength } = await workflow.getHandle(workflowId).describe();
    assert.ok(historyLength >= FIRST_TASK && !raw.pendingWorkflowTask, `a Workflow Task of ${workflowId} is pending`);
  });
  await workflowService.pauseWorkflowExecution({ ...requestOf(options), workflowId });
}

export async function unpauseWorkflow({ workflowService, options }: Client, workflowId: string): Promise<void> {
  await workflowService.unpauseWorkflowExecution({ ...requestOf(options), workflowId });
}

function requestOf({ namespace, identity }: Client['options']) {
  return { namespace, identity, reason: 'a test', requestId: randomUUID() };
}
