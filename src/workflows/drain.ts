import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { ParentClosePolicy, startChild, workflowInfo } from '@temporalio/workflow';
import { permitId } from '../shared/permit-id';
import { DRAINED, type PermitMemo } from '../shared/protocol';
import { permitSummary } from '../shared/summary';
import { WORKFLOW_PRIORITY } from '../shared/workflow-priority';
import { permitSlotWorkflow } from './permit-slot';

/**
 * Longer than any outage of the permit workers: a pause must hold although nobody can renew it. If the queue is terminated,
 * its drained slots come free at the next order of an operator, and after this time.
 */
const LEASE_MS = 7 * 24 * 60 * 60_000;

export interface DrainPermit {
  runId: string;
  /** Resolves when it has ended, if that is in this run of the queue. */
  ended: Promise<unknown>;
}

/**
 * The queue takes a slot out of use by claiming it like anybody else, so that safety stays with the claim, and acquirers
 * need to know nothing. The permit outlives the run, for the queue continues as new; its lease ends it if the queue is gone.
 *
 * @returns `undefined` when somebody else was faster
 */
export async function claimDrain(resource: string, slot: string): Promise<DrainPermit | undefined> {
  const { workflowId, runId, workflowType } = workflowInfo();
  const memo: PermitMemo = { leaseMs: LEASE_MS, holder: { workflowId, runId, workflowType }, purpose: DRAINED };
  try {
    const child = await startChild(permitSlotWorkflow, {
      workflowId: permitId({ resource, slot }),
      args: [{ ...memo, watchedBy: workflowId }],
      memo: { ...memo },
      staticSummary: permitSummary(workflowId, DRAINED),
      parentClosePolicy: ParentClosePolicy.ABANDON,
      priority: WORKFLOW_PRIORITY,
    });
    return { runId: child.firstExecutionRunId, ended: child.result().catch(() => undefined) };
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return undefined;
    throw error;
  }
}
