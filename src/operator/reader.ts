import type { WorkflowExecutionInfo } from '@temporalio/client';
import { readPermitMemo } from '../shared/lenient-input';
import { isPaused } from '../shared/open';
import { checkResource, checkSlot, type PermitAddress, parsePermitId, queueId } from '../shared/permit-id';
import type { Inspection, PermitInspection, SlotInspection, Stranger } from './inspection';

/** Reads a permit from the server's description of its Workflow. */
export function permitOf(
  run: Pick<WorkflowExecutionInfo, 'workflowId' | 'runId' | 'taskQueue' | 'startTime' | 'memo' | 'status'>,
): PermitInspection {
  const { holder, purpose, pool, slots, pacedUntilMs, preemptedUntilMs } = readPermitMemo(run.memo);
  const { workflowId, runId, taskQueue, startTime: since } = run;
  const permit: PermitInspection = { workflowId, runId, taskQueue, holder, since };
  if (purpose !== undefined) permit.purpose = purpose;
  if (pool !== undefined) permit.permitPool = pool;
  if (slots !== undefined) permit.slots = slots;
  if (isPaused(run)) permit.paused = true;
  if (pacedUntilMs !== undefined) permit.pacedUntil = new Date(pacedUntilMs);
  if (preemptedUntilMs !== undefined) permit.preemptedUntil = new Date(preemptedUntilMs);
  return permit;
}

/** A permit's purpose in one line. It says when a permit pool holds the permit: the purpose then is that of the pool's first caller. */
export function shownPurpose({
  purpose,
  permitPool,
}: Pick<PermitInspection, 'purpose' | 'permitPool'>): string | undefined {
  return permitPool === undefined ? purpose : ['permit pool', purpose].filter(Boolean).join(': ');
}

/** `permit:gpu:0 is a Workflow of type "train", and 3 more like it` */
export function strangersLine([first, ...more]: readonly Stranger[]): string {
  const others = more.length > 0 ? `, and ${more.length} more like it` : '';
  return `${first?.workflowId} is a Workflow of type "${first?.type}", not of temporal-semaphore${others}`;
}

/** A permit's resource and slot. `undefined` when the Workflow ID is no permit's, whatever the Workflow's type. */
export function permitAddress(workflowId: string): PermitAddress | undefined {
  const address = parsePermitId(workflowId);
  if (!address) return undefined;
  try {
    checkResource(address.resource);
    checkSlot(address.resource, address.slot);
    return address;
  } catch {
    return undefined;
  }
}

/** Whether the waiters are known. If no queue runs, no caller waits in it. */
export function isLineKnown({ queue }: Pick<Inspection, 'queue'>): boolean {
  return queue === 'none' || queue === 'running';
}

/** The state of a slot with this permit. The queue itself holds a drained slot, and a paced slot has no holder. */
export function stateOf(
  resource: string,
  { holder, pacedUntil }: Pick<PermitInspection, 'holder' | 'pacedUntil'>,
): SlotInspection['state'] {
  if (holder.workflowId === queueId(resource)) return 'drained';
  return pacedUntil ? 'paced' : 'held';
}
