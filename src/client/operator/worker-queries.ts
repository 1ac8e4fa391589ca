import {
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
 * Queries, which only a worker can answer. All queries of one batch share one limit of time, so that missing workers cost that
 * time once, and not once for each query.
 */
export class WorkerQueries {
  private readonly untilMs: number;

  constructor(
    private readonly server: Server,
    withinMs: number,
  ) {
    this.untilMs = monotonicMs() + withinMs;
  }

  /** `undefined` when nobody answers, or the Workflow does not know the query. */
  async ask<T>(handle: WorkflowHandle, query: string): Promise<T | undefined> {
    const leftMs = this.untilMs - monotonicMs();
    if (leftMs <= 0) return undefined;
    try {
      return await this.server.call(() => handle.query<T>(query), leftMs);
    } catch (error) {
      if (isSilence(error)) return undefined;
      throw error;
    }
  }
}

export function isSilence(error: unknown): boolean {
  if (error instanceof QueryNotRegisteredError || error instanceof WorkflowNotFoundError) return true;
  const { cause } = error as { cause?: unknown };
  return isTransient(error) || (isGrpcServiceError(cause) && cause.code === FAILED_PRECONDITION);
}
