import { TestWorkflowEnvironment } from '@temporalio/testing';
import type { ServerSource } from './find-server';
import { findServer } from './find-server';
import { type ServerOptions, spawnServer } from './server-process';

/** Starts the embedded server, or joins the one that the environment names. `teardown()` ends what this started. */
export async function startServer(options: ServerOptions = {}): Promise<TestWorkflowEnvironment> {
  return await startServerFrom(await findServer(), options);
}

/** As {@link startServer}, from a source that is known already. */
export async function startServerFrom(
  source: ServerSource,
  options: ServerOptions = {},
): Promise<TestWorkflowEnvironment> {
  if ('address' in source) return await TestWorkflowEnvironment.createFromExistingServer({ address: source.address });
  const server = await spawnServer(source.path, options);
  try {
    const env = await TestWorkflowEnvironment.createFromExistingServer({ address: server.address });
    const disconnect = env.teardown.bind(env);
    env.teardown = async () => {
      await disconnect();
      await server.stop();
    };
    return env;
  } catch (error) {
    await server.stop();
    throw error;
  }
}
