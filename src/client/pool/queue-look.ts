import { type Client, QueryRejectedError, WorkflowClient, WorkflowNotFoundError } from '@temporalio/client';
import type { OverrideState } from '../../shared/operator-protocol';
import { queueId } from '../../shared/permit-id';
import { QUEUE_VIEW, type QueueView } from '../../shared/queue-view';
import { wantsSlot } from '../../shared/slots';
import { readQueueView } from '../operator/queue-view';
import { isSilence, QUERY_MS } from '../operator/worker-queries';
import type { Server } from '../server';
import type { Others } from './turnover';

const NOBODY: Others = { tickets: [], isInUse: () => true };

/** Whether others wait can't be told. They must not wait for ever. */
const PERHAPS: Others = { tickets: [{ id: '', priorityKey: 1 }], isInUse: () => true };

/** A client whose query of a queue that has ended is one quick call: no worker replays it. */
export function openQueryClient({ connection, workflow }: Client): WorkflowClient {
  const { loadedDataConverter: dataConverter, ...options } = workflow.options;
  return new WorkflowClient({ ...options, connection, dataConverter, queryRejectCondition: 'NOT_OPEN' });
}

/**
 * Looks who else waits for permits of the resource: one query of its queue. That a queue runs says little, for an empty one
 * stays for a while.
 *
 * @param poolId whose tickets are not those of others
 * @returns `undefined` when no worker answers at once: a permit then serves on
 */
export async function lookAtQueue(
  server: Server,
  reader: WorkflowClient,
  { resource, poolId }: { resource: string; poolId: string },
): Promise<Others | undefined> {
  try {
    const view = readQueueView(
      await server.call(() => reader.getHandle(queueId(resource)).query(QUEUE_VIEW), QUERY_MS),
    );
    return view && othersIn(view, poolId);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || error instanceof QueryRejectedError) return NOBODY;
    return isSilence(error) ? undefined : PERHAPS;
  }
}

function othersIn({ tickets, slots, override }: QueueView, poolId: string): Others {
  const offered = new Set(slots.flatMap(([, state]) => (state.at === 'offered' ? state.ticketId : [])));
  const waiting = tickets.filter(({ id, pool }) => pool?.id !== poolId && !offered.has(id));
  return { tickets: waiting, isInUse: (slot) => isInUse(override, slot) };
}

/** As the queue decides it. */
function isInUse(override: OverrideState | undefined, slot: string): boolean {
  if (!override) return true;
  const { slots, capacity, paused } = override;
  return !paused && wantsSlot(typeof slots === 'number' ? (capacity ?? slots) : slots.slice(0, capacity), slot);
}
