import type { ServerSource } from './binary';
import { checkPortIsFree, spawnServer } from './process';

/** The Web UI's port lies this far above the server's, as with `temporal server start-dev`. */
export const UI_OFFSET = 1_000;

export interface ServeOptions {
  port: number;
  /** Keeps the server's state in this file. @default in memory */
  db?: string;
}

/**
 * Runs a Temporal server with its Web UI until the signal aborts.
 *
 * @param findServer gives the executable to run
 * @throws Error when the server can't be started, or dies
 */
export async function serve(
  { port, db }: ServeOptions,
  findServer: () => Promise<ServerSource>,
  interrupt: AbortSignal,
): Promise<void> {
  const uiPort = port + UI_OFFSET;
  const source = await findServer();
  if ('address' in source) {
    throw new Error(`TEMPORAL_SEMAPHORE_SERVER: expected the path of an executable to start, got "${source.address}"`);
  }
  await checkPortIsFree(port, 'the server');
  await checkPortIsFree(uiPort, 'the Web UI');

  const server = await spawnServer(source.path, { port, uiPort, dbFilename: db });
  try {
    console.log(`Temporal server: ${server.address}${db ? `, state in ${db}` : ', state in memory'}. Ctrl-C ends it.`);
    if (server.ui) console.log(`Web UI: ${server.ui}`);
    const words = await Promise.race([server.ended, untilAborted(interrupt)]);
    if (words !== undefined) throw new Error(`The Temporal server has ended: ${words}`);
  } finally {
    await server.stop();
  }
  console.log('The server has ended.');
}

/** Resolves once `signal` aborts. */
export async function untilAborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return undefined;
  return await new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
