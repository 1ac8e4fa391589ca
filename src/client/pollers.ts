import { tsToMs } from '@temporalio/common/lib/time';
import { pause } from './clock';
import { NoAnswerError, unpolledMessage } from './errors';
import type { Server } from './server';

/** A worker that is up answers sooner. */
export const SILENCE_MS = 2_000;

/** One look may take so long: it is for a message only. */
const LOOK_MS = 1_000;

/** A worker's poll lasts a minute, and the server remembers it for five. More than that minute, for clocks differ. */
const GONE_AFTER_MS = 90_000;

/** The kind of task queue that Workflow workers poll, as the server's API has it. */
const WORKFLOW_QUEUE = 1;

/** The `code` of the Node warning that an acquirer waits for a worker which is not there. */
export const UNPOLLED_WARNING = 'TEMPORAL_SEMAPHORE_UNPOLLED';

/**
 * Whether anybody polls the task queue that permits run on. Nobody asks while answers come: only where one has been missing
 * for two seconds, and then once for all who wait.
 */
export class Pollers {
  private looking: Promise<boolean> | undefined;
  private hasWarned = false;

  constructor(
    private readonly server: Server,
    readonly taskQueue: string,
  ) {}

  /** `false` too where the server does not tell: only what is known is said. */
  async areNone(): Promise<boolean> {
    this.looking ??= this.look().finally(() => {
      this.looking = undefined;
    });
    return await this.looking;
  }

  /** Whether there has been no answer for long, and nobody is there to give it. */
  async areMissed(answered: AbortSignal): Promise<boolean> {
    await pause(SILENCE_MS, answered);
    return !answered.aborted && (await this.areNone()) && !answered.aborted;
  }

  /** Tells the process, once, when the answer is long in coming and nobody is there to give it. */
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
      return false; // it may not be for us to know; whatever we wait for will tell what is wrong
    }
  }
}

/** The error of whoever has waited in vain for a worker. It names the task queue where nobody polls it. */
export async function noAnswer(
  pollers: Pollers,
  resource: string,
  timeoutMs: number,
  options?: ErrorOptions,
): Promise<NoAnswerError> {
  const unpolled = (await pollers.areNone()) ? pollers.taskQueue : undefined;
  return new NoAnswerError(resource, timeoutMs, { ...options, unpolled });
}
