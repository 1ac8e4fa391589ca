import { TestWorkflowEnvironment } from '@temporalio/testing';
import { type Progress, resolveServer, type ServerSource } from './server-binary';

export interface ServerOptions {
  /** @default a free one */
  port?: number;
  /** With the Web UI, on `port` + 1,000. */
  ui?: boolean;
  /** Keeps the server's state in this SQLite file. @default in memory */
  dbFilename?: string;
  /** More arguments for `temporal server start-dev`. */
  extraArgs?: string[];
}

/**
 * The dev server limits its one shard's queues to 20 polls a second, so each hop between Workflows waits up to 50 ms. A
 * production server has no such limit; these values lift it here.
 */
export const SERVER_ARGS = ['transferProcessorMaxPollRPS', 'timerProcessorMaxPollRPS'].flatMap((key) => [
  '--dynamic-config-value',
  `history.${key}=10000`,
]);

/** Starts the embedded server, or joins the one that the environment names. `teardown()` ends what this started. */
export async function startServer(
  options: ServerOptions = {},
  progress: Progress = (line) => console.error(line),
): Promise<TestWorkflowEnvironment> {
  return await startServerFrom(await resolveServer(progress), options);
}

/** As {@link startServer}, from a source that is known already. */
export async function startServerFrom(
  source: ServerSource,
  options: ServerOptions = {},
): Promise<TestWorkflowEnvironment> {
  if ('address' in source) return await TestWorkflowEnvironment.createFromExistingServer({ address: source.address });
  return await TestWorkflowEnvironment.createLocal({
    server: {
      ...options,
      executable: { type: 'existing-path', path: source.path },
      extraArgs: [...SERVER_ARGS, ...(options.extraArgs ?? [])],
    },
  });
}
