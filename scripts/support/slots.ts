import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { permitId } from '@/shared/permit-id';
import type { Holder } from '@/shared/protocol';

/** What the server says of one slot, now. */
export interface SlotState {
  slot: string;
  held?: { by: string; sinceMs: number };
}

/**
 * Asks the server who holds each of the slots `"0"` to `"capacity - 1"`. Unlike a list, which comes from the visibility
 * store and lags, `describe` is exact for its slot. Together the answers are not one moment's picture: a permit can change
 * hands between two of them.
 */
export async function readSlots(client: Client, resource: string, capacity: number): Promise<SlotState[]> {
  return await Promise.all(Array.from({ length: capacity }, (_, index) => readSlot(client, resource, String(index))));
}

async function readSlot(client: Client, resource: string, slot: string): Promise<SlotState> {
  try {
    const { status, memo, startTime } = await client.workflow.getHandle(permitId({ resource, slot })).describe();
    if (status.name !== 'RUNNING') return { slot };
    const { workflowId, identity } = (memo?.holder ?? {}) as Holder;
    return { slot, held: { by: workflowId ?? identity ?? 'unknown', sinceMs: startTime.getTime() } };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return { slot };
    throw error;
  }
}
