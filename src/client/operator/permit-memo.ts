import type { WorkflowExecutionInfo } from '@temporalio/client';
import { readSlotsMark } from '../../shared/agreement';
import { checkResource, checkSlot, type PermitAddress, parsePermitId, queueId } from '../../shared/permit-id';
import type { Holder, PermitMemo } from '../../shared/protocol';
import { recordOf, textOf, timeOf } from './foreign-values';
import type { PermitInspection, SlotInspection } from './inspection';

/** Reads a permit from the server's answer. Other languages write memos too, so any field may be missing. */
export function permitOf(run: Pick<WorkflowExecutionInfo, 'workflowId' | 'runId' | 'startTime' | 'memo'>) {
  const { holder, purpose, pool, slots, pacedUntilMs, preemptedUntilMs } = memoOf(run);
  const permit: PermitInspection = { workflowId: run.workflowId, runId: run.runId, holder, since: run.startTime };
  if (purpose !== undefined) permit.purpose = purpose;
  if (pool !== undefined) permit.pool = pool;
  if (slots !== undefined) permit.slots = slots;
  if (pacedUntilMs !== undefined) permit.pacedUntil = new Date(pacedUntilMs);
  if (preemptedUntilMs !== undefined) permit.preemptedUntil = new Date(preemptedUntilMs);
  return permit;
}

export function memoOf({ memo }: Pick<WorkflowExecutionInfo, 'memo'>) {
  const fields = recordOf(memo) as Partial<Record<keyof PermitMemo, unknown>>;
  const { holder, purpose, pool, slots, pacedUntilMs, releasedAtMs, preemptedUntilMs, revokedBecause } = fields;
  const wasRevoked = revokedBecause !== undefined;
  return {
    holder: readHolder(holder),
    purpose: textOf(purpose),
    pool: textOf(pool),
    slots: readSlotsMark(slots),
    pacedUntilMs: timeOf(pacedUntilMs),
    releasedAtMs: timeOf(releasedAtMs),
    preemptedUntilMs: timeOf(preemptedUntilMs),
    wasRevoked,
  };
}

/** A permit's purpose in one line. That of a permit pool says so: the purpose is that of the first caller it was for. */
export function shownPurpose({ purpose, pool }: Pick<PermitInspection, 'purpose' | 'pool'>): string | undefined {
  return pool === undefined ? purpose : ['permit pool', purpose].filter(Boolean).join(': ');
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

/** The state of a slot with this permit: the queue itself holds a drained slot, and nobody holds a paced one. */
export function stateOf(
  resource: string,
  { holder, pacedUntil }: Pick<PermitInspection, 'holder' | 'pacedUntil'>,
): SlotInspection['state'] {
  if (holder.workflowId === queueId(resource)) return 'drained';
  return pacedUntil ? 'paced' : 'held';
}

function readHolder(value: unknown): Holder {
  const { workflowId, runId, workflowType, identity } = recordOf(value);
  const texts = Object.entries({ workflowId, runId, workflowType, identity }).map(([name, text]) => [
    name,
    textOf(text),
  ]);
  return Object.fromEntries(texts.filter(([, text]) => text));
}
