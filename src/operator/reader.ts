import { type Client, WorkflowClient, type WorkflowExecutionInfo } from '@temporalio/client';
import type { Payload, SerializationContext } from '@temporalio/common';
import { readPermitMemo } from '../shared/lenient-input';
import { isPaused } from '../shared/open';
import { checkResource, checkSlot, type PermitAddress, parsePermitId, queueId } from '../shared/permit-id';
import type { Inspection, PermitInspection, SlotInspection, Stranger } from './inspection';

/**
 * A client for reading only. It reads a payload that it can't decode as `undefined`. Anybody may have written a memo, with
 * another codec or none, and one unreadable memo must not hide all others from an operator.
 */
export function lenientReader({ connection, workflow }: Client): WorkflowClient {
  const { payloadConverter, payloadCodecs, ...rest } = workflow.options.loadedDataConverter;
  const dataConverter: typeof workflow.options.loadedDataConverter = {
    ...rest,
    payloadConverter: {
      toPayload: (value, context) => payloadConverter.toPayload(value, context),
      fromPayload<T>(payload: Payload, context?: SerializationContext) {
        try {
          return payloadConverter.fromPayload<T>(payload, context);
        } catch {
          return undefined as T;
        }
      },
    },
    payloadCodecs: payloadCodecs.map((codec) => ({
      encode: (payloads, context) => codec.encode(payloads, context),
      async decode(payloads, context) {
        try {
          return await codec.decode(payloads, context);
        } catch {
          return payloads;
        }
      },
    })),
  };
  return new WorkflowClient({ ...workflow.options, connection, dataConverter });
}

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
  return `${first?.workflowId} is a Workflow of type "${first?.type}", none of ours${others}`;
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

/** Whether the waiters are known. Where no queue runs, nobody waits in line. */
export function isLineKnown({ queue }: Pick<Inspection, 'queue'>): boolean {
  return queue === 'none' || queue === 'running';
}

/** The state of a slot with this permit. The queue itself holds a drained slot, and nobody holds a paced slot. */
export function stateOf(
  resource: string,
  { holder, pacedUntil }: Pick<PermitInspection, 'holder' | 'pacedUntil'>,
): SlotInspection['state'] {
  if (holder.workflowId === queueId(resource)) return 'drained';
  return pacedUntil ? 'paced' : 'held';
}
