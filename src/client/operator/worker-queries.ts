import {
  isGrpcServiceError,
  QueryNotRegisteredError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { monotonicMs } from '../clock';
import { isTransient, type Server } from '../server';

/** gRPC's code of a query whose task queue no worker has asked for long. */
const FAILED_PRECONDITION = 9;

/**
 * Queries, which only a worker can answer. Those of one batch have one limit of time together, so that workers which are
 * down cost that once and not once a question.
 */
export class WorkerQueries {
  private readonly untilMs: number;

  constructor(
    private readonly server: Server,
    withinMs: number,
  ) {
    this.untilMs = monotonicMs() + withinMs;
  }

  /** `undefined`: nobody answers, or nobody who knows the question. */
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

function isSilence(error: unknown): boolean {
  if (error instanceof QueryNotRegisteredError || error instanceof WorkflowNotFoundError) return true;
  const { cause } = error as { cause?: unknown };
  return isTransient(error) || (isGrpcServiceError(cause) && cause.code === FAILED_PRECONDITION);
}
