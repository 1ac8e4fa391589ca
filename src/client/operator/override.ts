import { randomUUID } from 'node:crypto';
import {
  ApplicationFailure,
  WithStartWorkflowOperation,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { OVERRIDE, type OverrideInput, type OverrideState, STALE_OVERRIDE } from '../../shared/operator-protocol';
import { queueId } from '../../shared/permit-id';
import { QUEUE_WORKFLOW } from '../../shared/protocol';
import { WORKFLOW_PRIORITY } from '../../shared/start-options';
import { monotonicMs } from '../clock';
import { StaleOverrideError } from '../errors';
import type { Request } from '../options';
import { noAnswer, Pollers } from '../pollers';
import { isTransient, type Server } from '../server';
import type { Override } from './inspection';

/** A queue that ends at this very moment can't take the update. More than one in a row is not to be expected. */
const QUEUE_ENDED_ATTEMPTS = 5;

/**
 * Changes the override of a resource's wait queue. Without a queue, this starts one.
 *
 * @returns the override after the change; without `capacity` and with `paused: false` when none is left
 * @throws StaleOverrideError @throws NoAnswerError
 */
export async function overrideQueue(
  server: Server,
  semaphore: Request['semaphore'],
  input: OverrideInput,
  timeoutMs: number,
): Promise<Override> {
  // A run of the queue carries out one update ID only once, so a call whose answer got lost can be repeated.
  const updateId = randomUUID();
  const untilMs = monotonicMs() + timeoutMs;
  const persistence = { untilMs, signal: new AbortController().signal };
  for (let attempt = 1; ; attempt++) {
    try {
      return shown(await server.persist(() => update(server, semaphore, input, updateId), persistence));
    } catch (error) {
      if (error instanceof WorkflowNotFoundError && attempt < QUEUE_ENDED_ATTEMPTS) continue;
      if (!isLate(error)) throw translated(error, semaphore.resource, input);
      throw await noAnswer(new Pollers(server, semaphore.taskQueue), semaphore.resource, timeoutMs, { cause: error });
    }
  }
}

async function update(
  { client }: Server,
  { resource, taskQueue }: Request['semaphore'],
  input: OverrideInput,
  updateId: string,
): Promise<OverrideState> {
  const startWorkflowOperation = new WithStartWorkflowOperation(QUEUE_WORKFLOW, {
    workflowId: queueId(resource),
    workflowIdConflictPolicy: 'USE_EXISTING',
    taskQueue,
    priority: WORKFLOW_PRIORITY,
    args: [{ tickets: [] }],
  });
  return await client.workflow.executeUpdateWithStart<() => Promise<void>, OverrideState, [OverrideInput]>(OVERRIDE, {
    args: [input],
    updateId,
    startWorkflowOperation,
  });
}

/** The override without the fields that only the queue needs. */
export function shown({ version, capacity, paused, pausedUntilMs, reason }: OverrideState): Override {
  return {
    version,
    ...(capacity !== undefined && { capacity }),
    paused,
    ...(pausedUntilMs !== undefined && { pausedUntil: new Date(pausedUntilMs) }),
    ...(reason !== undefined && { reason }),
  };
}

function translated(error: unknown, resource: string, { ifVersion = 0 }: OverrideInput): unknown {
  if (!(error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure)) return error;
  if (error.cause.type !== STALE_OVERRIDE) return error;
  const current = error.cause.details?.[0] as OverrideState | null | undefined;
  return new StaleOverrideError(resource, ifVersion, current ? shown(current) : undefined);
}

function isLate(error: unknown): boolean {
  return error instanceof WorkflowUpdateRPCTimeoutOrCancelledError || isTransient(error);
}
