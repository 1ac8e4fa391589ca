import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { sleep } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { createPermitWorker } from '@/worker';
import { startServer, type TemporalServer } from '../scripts/support/temporal-server';

export interface Bench {
  readonly env: TemporalServer;
  readonly client: Client;
  readonly taskQueue: string;
  /** Of a permit worker. */
  readonly permitQueue: string;
}

/**
 * Runs `measure` on a real server, with a worker that runs everything, and one for permits alone.
 * @param polls how many Workflow Tasks the first one asks for at a time; the SDK's default is 10
 */
export async function withBench(measure: (bench: Bench) => Promise<void>, polls?: number): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const env = await startServer({ metrics: true });
  const taskQueue = `bench-${randomUUID()}`;
  const permitQueue = `${taskQueue}-permits`;
  const logger = new DefaultLogger('ERROR');
  try {
    const worker = await Worker.create({
      connection: env.nativeConnection,
      workflowsPath: require.resolve('./workflows'),
      activities: { hold: (holdMs: number) => sleep(holdMs) },
      taskQueue,
      bundlerOptions: { logger } as object,
      ...(polls && { maxConcurrentWorkflowTaskPolls: polls, maxConcurrentWorkflowTaskExecutions: polls }),
    });
    const permits = await createPermitWorker({
      connection: env.nativeConnection,
      taskQueue: permitQueue,
      bundlerOptions: { logger } as object,
    });
    await worker.runUntil(permits.runUntil(measure({ env, client: env.client, taskQueue, permitQueue })));
  } finally {
    await env.teardown();
  }
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

export function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The mean of the middle half: a Workflow's clock has whole milliseconds, too coarse for the ratio of two medians of about ten. */
export function middle(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.slice(Math.floor(sorted.length / 4), Math.ceil((3 * sorted.length) / 4));
  return half.reduce((sum, value) => sum + value, 0) / half.length;
}

/** Waits until visibility has as many closed runs as are expected for `query`, so that nothing is missed in the counts. */
export async function untilCounted(client: Client, query: string, expected: number): Promise<void> {
  for (;;) {
    const { count } = await client.workflow.count(query);
    if (count >= expected) return;
    await delay(200);
  }
}
