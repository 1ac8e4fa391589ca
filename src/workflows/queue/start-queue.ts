import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { ParentClosePolicy, startChild } from '@temporalio/workflow';
import { queueId } from '../../shared/permit-id';
import type { Ticket } from '../../shared/protocol';
import { WORKFLOW_PRIORITY } from '../../shared/start-options';
import { shielded } from '../shielded';
import { waitQueueWorkflow } from './wait-queue';

/** Starts the queue of a resource, which outlives us: others wait in it too. `false` when somebody else was faster. */
export async function startQueue(
  resource: string,
  taskQueue: string | undefined,
  tickets: Ticket[] = [],
): Promise<boolean> {
  try {
    await shielded(() =>
      startChild(waitQueueWorkflow, {
        workflowId: queueId(resource),
        args: [{ tickets }],
        taskQueue,
        parentClosePolicy: ParentClosePolicy.ABANDON,
        priority: WORKFLOW_PRIORITY,
      }),
    );
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}
