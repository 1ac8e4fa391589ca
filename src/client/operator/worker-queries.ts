import {
  isGrpcDeadlineError,
  isGrpcServiceError,
  QueryNotRegisteredError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { monotonicMs } from '../clock';
import { isTransient, type Server } from '../server';

/** gRPC's code for a query whose task queue no worker has polled for long. */
const FAILED_PRECONDITION = 9;

/**
 * How long one query may wait for a worker: less than the second after which `createPermitWorker`'s Workflows pass from a worker that is
 * gone to another one. A worker that takes a Workflow over for a query, while a signal waits for its task, gives the Workflow that
 * signal with an old time (SDK 1.24.0), and its history does not replay: see `docs/reliability.md`.
 */
export const QUERY_MS = 800;

/**
 * Queries, which only a worker can answer. All queries of one batch share a limit of time for each task queue, so that missing workers
 * cost that time once, and not once for each query. After it, one query at a time finds out whether a worker is back. While all are
 * answered, there may be so many that they take longer.
 */
export class WorkerQueries {
  /** Task queues whose last queries had no answer, and since when. */
  private readonly silentSinceMs = new Map<string, number>();
  /** Of those, the ones that a query asks. */
  private readonly asked = new Set<string>();

  constructor(
    private readonly server: Server,
    /** How long a task queue may be silent. */
    private readonly withinMs: number,
  ) {}

  /** `undefined` when nobody answers, or the Workflow does not know the query. */
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
        if (isGrpcDeadlineError((error as Error).cause ?? error)) continue;
        if (isSilence(error)) return undefined;
        throw error;
      }
    } while (this.leftMs(taskQueue) > 0);
    return undefined;
  }

  /** For how long it may be silent still. */
  private leftMs(taskQueue: string): number {
    const sinceMs = this.silentSinceMs.get(taskQueue);
    return sinceMs === undefined ? this.withinMs || 1 : sinceMs + this.withinMs - monotonicMs();
  }
}

function isNotThere(error: unknown): boolean {
  return error instanceof QueryNotRegisteredError || error instanceof WorkflowNotFoundError;
}

export function isSilence(error: unknown): boolean {
  if (isNotThere(error)) return true;
  const { cause } = error as { cause?: unknown };
  return isTransient(error) || (isGrpcServiceError(cause) && cause.code === FAILED_PRECONDITION);
}
