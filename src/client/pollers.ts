import { tsToMs } from '@temporalio/common/lib/time';
import { pause } from './clock';
import { NoAnswerError, unpolledMessage } from './errors';
import type { Server } from './server';

/** A running worker answers sooner than this. */
export const SILENCE_MS = 2_000;

/** How long the question may take: its answer is only for a message. */
const LOOK_MS = 1_000;

/** A worker's poll lasts a minute, and the server remembers it for five. This is longer than a minute, since clocks differ. */
const GONE_AFTER_MS = 90_000;

/** The kind of task queue that Workflow workers poll, as the server's API has it. */
const WORKFLOW_QUEUE = 1;

/** The `code` of the Node warning that an acquirer waits and nobody polls the task queue. */
const UNPOLLED_WARNING = 'TEMPORAL_SEMAPHORE_UNPOLLED';

/**
 * Tells whether anybody polls the task queue of the permits. It asks the server only when an answer has been missing for two
 * seconds, and then once for all waiters of this client.
 */
export class Pollers {
  private looking: Promise<boolean> | undefined;
  private hasWarned = false;

  constructor(
    private readonly server: Server,
    readonly taskQueue: string,
  ) {}

  /** Whether nobody polls it. `false` too when the server does not say. */
  async areNone(): Promise<boolean> {
    this.looking ??= this.look().finally(() => {
      this.looking = undefined;
    });
    return await this.looking;
  }

  /** Waits two seconds for the answer. Whether it has not come, and nobody polls the task queue. */
  async areMissed(answered: AbortSignal): Promise<boolean> {
    await pause(SILENCE_MS, answered);
    return !answered.aborted && (await this.areNone()) && !answered.aborted;
  }

  /** Emits a Node warning, once, when no answer comes and nobody polls the task queue. */
  async warn(answered: AbortSignal): Promise<void> {
    if (this.hasWarned || !(await this.areMissed(answered)) || this.hasWarned) return;
    this.hasWarned = true;
    process.emitWarning(unpolledMessage(this.taskQueue), { code: UNPOLLED_WARNING });
  }

  private async look(): Promise<boolean> {
    const { workflowService, options } = this.server.client;
    const request = {
      namespace: options.namespace,
      taskQueue: { name: this.taskQueue },
      taskQueueType: WORKFLOW_QUEUE,
    };
    try {
      const { pollers } = await this.server.call(() => workflowService.describeTaskQueue(request), LOOK_MS);
      const sinceMs = Date.now() - GONE_AFTER_MS;
      return !(pollers ?? []).some(({ lastAccessTime }) => lastAccessTime && tsToMs(lastAccessTime) > sinceMs);
    } catch {
      return false; // we may lack the permission to ask; the wait's own error tells what is wrong
    }
  }
}

/** The error after waiting in vain for a worker. It names the task queue when nobody polls it. */
export async function noAnswer(
  pollers: Pollers,
  resource: string,
  timeoutMs: number,
  options?: ErrorOptions,
): Promise<NoAnswerError> {
  const unpolled = (await pollers.areNone()) ? pollers.taskQueue : undefined;
  return new NoAnswerError(resource, timeoutMs, { ...options, unpolled });
}
