import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { type ChildWorkflowHandle, ParentClosePolicy, startChild, workflowInfo } from '@temporalio/workflow';
import { slotsMark } from '../../shared/agreement';
import { type PermitAddress, permitId } from '../../shared/permit-id';
import { type PreemptionTerms, termsOf } from '../../shared/preemption-protocol';
import type { PermitMemo } from '../../shared/protocol';
import type { Slots } from '../../shared/slots';
import { permitSummary, WORKFLOW_PRIORITY } from '../../shared/start-options';
import { pacedPermitWorkflow } from './paced-permit';
import { permitSlotWorkflow } from './permit-slot';

export type PermitChild = ChildWorkflowHandle<typeof permitSlotWorkflow>;

interface ClaimOptions {
  leaseMs: number;
  purpose: string | undefined;
  /** Absent: no waiter can take the permit. */
  preemptible?: PreemptionTerms | undefined;
  /** The queue that is told when the permit closes: the one whose turn this is. */
  watchedBy: string | undefined;
  /** Whether the permit goes on when this run ends. */
  outlivesRun: boolean;
  taskQueue?: string;
  maxHoldMs?: number;
  /** As the semaphore's. */
  paceMs?: number;
  /** The slots that the claimer takes the resource to have; the queue, which drains, takes none. */
  slots?: Slots;
}

/**
 * The atomic step: this Workflow starts the permit of a slot as its child. The server runs only one Workflow of that ID.
 *
 * @returns `undefined` when the slot is held
 */
export function claimSlot(
  address: PermitAddress,
  { leaseMs, purpose, preemptible, watchedBy, outlivesRun, taskQueue, maxHoldMs, paceMs, slots }: ClaimOptions,
): Promise<PermitChild | undefined> {
  const { workflowId, runId, workflowType } = workflowInfo();
  const memo: PermitMemo = {
    leaseMs,
    holder: { workflowId, runId, workflowType },
    purpose,
    paceMs,
    ...(preemptible && { preemptible: termsOf(preemptible) }),
  };
  if (slots !== undefined) memo.slots = slotsMark(slots);
  return startChild(paceMs === undefined ? permitSlotWorkflow : pacedPermitWorkflow, {
    workflowId: permitId(address),
    args: [{ ...memo, watchedBy }],
    memo: { ...memo },
    staticSummary: permitSummary(workflowId, purpose),
    taskQueue,
    // A cancel request is a release: unlike a terminated permit, this one keeps its pace, and tells the queue.
    parentClosePolicy: outlivesRun ? ParentClosePolicy.ABANDON : ParentClosePolicy.REQUEST_CANCEL,
    workflowExecutionTimeout: maxHoldMs,
    priority: WORKFLOW_PRIORITY,
  }).catch(noneIfHeld);
}

function noneIfHeld(error: unknown): undefined {
  if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
}
