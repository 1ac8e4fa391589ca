import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { type ChildWorkflowHandle, ParentClosePolicy, startChild, workflowInfo } from '@temporalio/workflow';
import { type PermitAddress, permitId } from '../../shared/permit-id';
import type { PermitMemo } from '../../shared/protocol';
import { type MemoDraft, permitSummary, WORKFLOW_PRIORITY } from '../../shared/request';
import { pacedPermitWorkflow, permitSlotWorkflow } from './permit-slot';

export type PermitChild = ChildWorkflowHandle<typeof permitSlotWorkflow>;

interface ClaimOptions {
  /** Whether the permit outlives this run. */
  outlivesRun: boolean;
  /** The queue that is notified when the permit closes: the queue that gave the turn. */
  watchedBy?: string | undefined;
  taskQueue?: string | undefined;
  maxHoldMs?: number;
}

/**
 * The atomic step: this Workflow starts the permit of a slot as its child. The server runs only one Workflow with that ID.
 *
 * @returns `undefined` if the slot is held
 */
export function claimSlot(
  address: PermitAddress,
  draft: MemoDraft,
  { outlivesRun, watchedBy, taskQueue, maxHoldMs }: ClaimOptions,
): Promise<PermitChild | undefined> {
  const { workflowId, runId, workflowType } = workflowInfo();
  const memo: PermitMemo = { ...draft, holder: { workflowId, runId, workflowType } };
  return startChild(memo.paceMs === undefined ? permitSlotWorkflow : pacedPermitWorkflow, {
    workflowId: permitId(address),
    args: [{ ...memo, watchedBy }],
    memo: { ...memo },
    staticSummary: permitSummary(workflowId, memo.purpose),
    taskQueue,
    // A cancel request is a release: unlike a terminated permit, a released permit keeps its pace, and notifies the queue.
    parentClosePolicy: outlivesRun ? ParentClosePolicy.ABANDON : ParentClosePolicy.REQUEST_CANCEL,
    workflowExecutionTimeout: maxHoldMs,
    priority: WORKFLOW_PRIORITY,
  }).catch(noneIfHeld);
}

function noneIfHeld(error: unknown): undefined {
  if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
}
