import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import type { exampleConsumer } from './example-workflow';
import { messageOf } from './main';
import type { RunOptions } from './run-options';

/** The semaphore that the examples share, over all their runs. */
export const RESOURCE = 'gpu-pool';

/** How a consumer ended. */
export type Outcome = { ok: true } | { ok: false; why: string };

const STOP_WITHIN_MS = 3_000;

/** The consumers of one run, told from those of any other by their Workflow IDs. */
export class ConsumerRun {
  /** Its consumers are the Workflows `consumer-<id>-<number>`. */
  readonly id = randomUUID().slice(0, 6);
  /** Filled as the server tells of their ends. */
  readonly outcomes = new Map<string, Outcome>();
  private handles: WorkflowHandle<typeof exampleConsumer>[] = [];
  private ends: Promise<void>[] = [];

  constructor(
    readonly client: Client,
    readonly options: RunOptions,
    private readonly taskQueue: string,
  ) {}

  get consumers(): string[] {
    return this.handles.map(({ workflowId }) => workflowId);
  }

  get allEnded(): boolean {
    return this.outcomes.size === this.handles.length;
  }

  async start(): Promise<void> {
    const { consumers, capacity, holdMs } = this.options;
    const starts = Array.from({ length: consumers }, (_, index) =>
      this.client.workflow.start<typeof exampleConsumer>('exampleConsumer', {
        workflowId: `consumer-${this.id}-${index + 1}`,
        taskQueue: this.taskQueue,
        args: [{ resource: RESOURCE, semaphore: { capacity }, holdMs }],
      }),
    );
    // All of them, even when one fails: what was started must be stopped.
    const started = await Promise.allSettled(starts);
    this.handles = started.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
    this.ends = this.handles.map(async (handle) => {
      this.outcomes.set(handle.workflowId, await outcomeOf(handle));
    });
    const failed = started.find((start) => start.status === 'rejected');
    if (failed) throw failed.reason;
  }

  /** Cancels whoever has not ended, so that they give their permits back, and terminates who does not heed it. */
  async stop(): Promise<void> {
    const stopWith = async (how: (handle: WorkflowHandle) => Promise<unknown>) => {
      const left = this.handles.filter(({ workflowId }) => !this.outcomes.has(workflowId));
      const deadline = Date.now() + STOP_WITHIN_MS;
      const told = await this.client.withDeadline(deadline, () => Promise.allSettled(left.map(how)));
      // Who cannot be told has just ended, or the server is gone: there is nothing to wait for either way.
      if (told.every(({ status }) => status === 'rejected')) return;
      await Promise.race([Promise.all(this.ends), delay(STOP_WITHIN_MS, undefined, { ref: false })]);
    };
    await stopWith((handle) => handle.cancel());
    if (!this.allEnded) await stopWith((handle) => handle.terminate('The run was interrupted'));
  }
}

async function outcomeOf(handle: WorkflowHandle<typeof exampleConsumer>): Promise<Outcome> {
  try {
    await handle.result();
    return { ok: true };
  } catch (error) {
    return { ok: false, why: messageOf(error instanceof WorkflowFailedError ? (error.cause ?? error) : error) };
  }
}
