import { setTimeout as delay } from 'node:timers/promises';
import { isGrpcDeadlineError, type WorkflowHandle } from '@temporalio/client';
import { monotonicMs } from '../client/server/clock';
import { isNotThere, isSilence } from '../client/server/grpc-errors';
import { QUERY_MS, type Server } from '../client/server/server';

/** A server under load, and a Workflow whose first task is not done yet, refuse a query at once. */
const PAUSE_MS = 50;

/**
 * Makes queries, which only a worker can answer. All queries of one batch share a limit of time for each task queue, so that missing
 * workers cost that time once, and not once for each query. After that time, one query at a time finds out whether a worker is back.
 * While workers answer all queries, the batch may take longer.
 */
export class WorkerQueries {
  /** Task queues whose last queries had no answer, and since when. */
  private readonly silentSinceMs = new Map<string, number>();
  /** The silent task queues that a query asks now. */
  private readonly asked = new Set<string>();

  constructor(
    private readonly server: Server,
    /** How long a task queue may be silent. */
    private readonly withinMs: number,
  ) {}

  /** `undefined` if no worker answers, or the Workflow does not know the query. */
  async ask<T>(handle: WorkflowHandle, taskQueue: string, query: string): Promise<T | undefined> {
    if (this.leftMs(taskQueue) > 0) return await this.askAgain(handle, taskQueue, query);
    if (this.asked.has(taskQueue)) return undefined;
    this.asked.add(taskQueue);
    try {
      return await this.askAgain(handle, taskQueue, query);
    } finally {
      this.asked.delete(taskQueue);
    }
  }

  private async askAgain<T>(handle: WorkflowHandle, taskQueue: string, query: string): Promise<T | undefined> {
    do {
      const sinceMs = monotonicMs();
      try {
        const answer = await this.server.call(() => handle.query<T>(query), QUERY_MS);
        this.silentSinceMs.delete(taskQueue);
        return answer;
      } catch (error) {
        if (isNotThere(error)) return undefined;
        if (!this.silentSinceMs.has(taskQueue)) this.silentSinceMs.set(taskQueue, sinceMs);
        if (!isSilence(error)) throw error;
        if (!isGrpcDeadlineError((error as Error).cause ?? error)) await delay(PAUSE_MS);
      }
    } while (this.leftMs(taskQueue) > 0);
    return undefined;
  }

  /** For how long the task queue may still be silent. */
  private leftMs(taskQueue: string): number {
    const sinceMs = this.silentSinceMs.get(taskQueue);
    return sinceMs === undefined ? this.withinMs || 1 : sinceMs + this.withinMs - monotonicMs();
  }
}
