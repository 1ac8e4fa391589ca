import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';

/** Events of a run whose first Workflow Task is done: started, scheduled, started, completed. */
const FIRST_TASK = 4;

/**
 * Whether a Workflow that this server has paused stands still (Workflow Pause). Not where its flag is off, nor before 1.32: earlier servers may
 * let a paused Workflow run on (temporalio/temporal#10239).
 */
export async function canPauseWorkflows({ workflowService, options }: Client): Promise<boolean> {
  const { namespaceInfo } = await workflowService.describeNamespace({ namespace: options.namespace });
  const { serverVersion = '' } = await workflowService.getSystemInfo({});
  const [major = 0, minor = 0] = serverVersion.split('.').map(Number);
  return (major > 1 || minor >= 32) && namespaceInfo?.capabilities?.workflowPause === true;
}

/**
 * Whether no Workflow Task of this Workflow waits for a worker, so that it can be paused. Server 1.32 fails a task that does, and the SDK
 * (1.24.0) then can't read the history any more.
 */
export async function isQuiet({ workflow }: Client, workflowId: string, runId?: string): Promise<boolean> {
  const { raw, historyLength } = await workflow.getHandle(workflowId, runId).describe();
  return historyLength >= FIRST_TASK && !raw.pendingWorkflowTask;
}

export async function pauseWorkflow(
  { workflowService, options }: Client,
  workflowId: string,
  runId?: string,
): Promise<void> {
  await workflowService.pauseWorkflowExecution({ ...requestOf(options), workflowId, runId });
}

export async function unpauseWorkflow(
  { workflowService, options }: Client,
  workflowId: string,
  runId?: string,
): Promise<void> {
  await workflowService.unpauseWorkflowExecution({ ...requestOf(options), workflowId, runId });
}

function requestOf({ namespace, identity }: Client['options']) {
  return { namespace, identity, reason: 'a test', requestId: randomUUID() };
}
