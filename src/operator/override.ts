import { randomUUID } from 'node:crypto';
import {
  isGrpcServiceError,
  WithStartWorkflowOperation,
  WorkflowNotFoundError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { monotonicMs } from '../client/server/clock';
import { hasJustMoved, isTransient, refusalOf } from '../client/server/grpc-errors';
import type { Persistence, Server } from '../client/server/server';
import { queueId } from '../shared/permit-id';
import { OVERRIDE, type OverrideInput, type OverrideState, QUEUE_WORKFLOW, STALE_OVERRIDE } from '../shared/protocol';
import { WORKFLOW_PRIORITY } from '../shared/request';

import { StaleOverrideError } from './errors';
import type { Override } from './inspection';
import { shown } from './inspector';

/** The wait queue of a resource, and where it starts if none runs. */
interface Queue {
  resource: string;
  taskQueue: string;
}

/** A queue that ends at this moment can't take the update. Two such queues in a row are not to be expected. */
const QUEUE_ENDED_ATTEMPTS = 5;

/**
 * Changes the override of a resource's wait queue. If no queue runs, this starts one on the task queue.
 *
 * @returns the override after the change; when none is left, it has no `capacity` and `paused: false`
 * @throws StaleOverrideError @throws an error that {@link isLate} knows when no worker has answered in time
 */
export async function overrideQueue(
  server: Server,
  queue: Queue,
  input: OverrideInput,
  persistence: Persistence,
): Promise<Override> {
  // A run of the queue carries out an update ID only once, so this can repeat a call whose answer got lost.
  const updateId = randomUUID();
  for (let attempt = 1; ; attempt++) {
    try {
      return shown(await server.persist(() => update(server, queue, input, updateId), persistence));
    } catch (error) {
      if (error instanceof WorkflowNotFoundError && attempt < QUEUE_ENDED_ATTEMPTS) continue;
      if (hasJustMoved(error) && monotonicMs() < persistence.untilMs) continue;
      throw translated(error, queue.resource, input);
    }
  }
}

async function update(
  { client }: Server,
  { resource, taskQueue }: Queue,
  input: OverrideInput,
  updateId: string,
): Promise<OverrideState> {
  const workflowId = queueId(resource);
  const start = {
    workflowId,
    workflowIdConflictPolicy: 'USE_EXISTING' as const,
    taskQueue,
    priority: WORKFLOW_PRIORITY,
    args: [{ tickets: [] }],
  };
  const order = { args: [input] as [OverrideInput], updateId };
  try {
    const startWorkflowOperation = new WithStartWorkflowOperation(QUEUE_WORKFLOW, start);
    return await client.workflow.executeUpdateWithStart<() => Promise<void>, OverrideState, [OverrideInput]>(OVERRIDE, {
      ...order,
      startWorkflowOperation,
    });
  } catch (error) {
    if (!isForbidden(error as Error)) throw error;
    await client.workflow.start(QUEUE_WORKFLOW, start);
    return await client.workflow.getHandle(workflowId).executeUpdate<OverrideState, [OverrideInput]>(OVERRIDE, order);
  }
}

/** gRPC's code by which server 1.25 refuses to start and update in one call, unless it is configured to. */
const PERMISSION_DENIED = 7;

function isForbidden({ cause }: Error): boolean {
  return isGrpcServiceError(cause) && cause.code === PERMISSION_DENIED;
}

function translated(error: unknown, resource: string, { ifVersion = 0 }: OverrideInput): unknown {
  const refusal = refusalOf(error);
  if (refusal?.type !== STALE_OVERRIDE) return error;
  const current = refusal.details?.[0] as OverrideState | null | undefined;
  return new StaleOverrideError(resource, ifVersion, current ? shown(current) : undefined);
}

/** No worker has answered, or the server has not. */
export function isLate(error: unknown): boolean {
  return error instanceof WorkflowUpdateRPCTimeoutOrCancelledError || isTransient(error);
}
