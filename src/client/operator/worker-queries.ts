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
 * Queries, which only a worker can answer. All queries of one batch share one limit of time, so that missing workers cost that
 * time once for each task queue, and not once for each query. While all are answered, there may be so many that they take longer.
 */
export class WorkerQueries {
  private readonly untilMs: number;
  /** Task queues of which a query had no answer. */
  private readonly silent = new Set<string>();

  constructor(
    private readonly server: Server,
    withinMs: number,
  ) {
    this.untilMs = monotonicMs() + withinMs;
  }

  /** `undefined` when nobody answers, or the Workflow does not know the query. */
  async ask<T>(handle: WorkflowHandle, taskQueue: string, query: string): Promise<T | undefined> {
    while (!this.silent.has(taskQueue) || this.leftMs > 0) {
      try {
        const withinMs = this.silent.has(taskQueue) ? Math.min(this.leftMs, QUERY_MS) : QUERY_MS;
        return await this.server.call(() => handle.query<T>(query), withinMs);
      } catch (error) {
        if (isNotThere(error)) return undefined;
        this.silent.add(taskQueue);
        if (isGrpcDeadlineError((error as Error).cause ?? error)) continue;
        if (isSilence(error)) return undefined;
        throw error;
      }
    }
    return undefined;
  }

  private get leftMs(): number {
    return this.untilMs - monotonicMs();
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
