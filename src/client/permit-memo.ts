import type { WorkflowExecutionInfo } from '@temporalio/client';
import { queueId } from '../shared/permit-id';
import type { PermitMemo } from '../shared/protocol';
import type { PermitInspection, SlotInspection } from './inspection';

/** Reads what the server says of a permit. Other languages write memos too, so nothing is sure to be there. */
export function permitOf(run: Pick<WorkflowExecutionInfo, 'workflowId' | 'runId' | 'startTime' | 'memo'>) {
  const { holder = {}, purpose } = memoOf(run);
  const permit: PermitInspection = { workflowId: run.workflowId, runId: run.runId, holder, since: run.startTime };
  if (purpose !== undefined) permit.purpose = purpose;
  return permit;
}

export function memoOf({ memo }: Pick<WorkflowExecutionInfo, 'memo'>): Partial<PermitMemo> {
  return (memo ?? {}) as Partial<PermitMemo>;
}

/** What a slot with this permit is: the queue itself holds what is drained. */
export function stateOf(resource: string, { holder }: Pick<PermitInspection, 'holder'>): SlotInspection['state'] {
  return holder.workflowId === queueId(resource) ? 'drained' : 'held';
}
