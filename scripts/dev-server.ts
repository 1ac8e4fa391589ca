import { findServer } from './support/find-server';
import { runMain, untilAborted } from './support/main';
import { parseServeOptions, UI_OFFSET } from './support/run-options';
import { checkPortIsFree, spawnServer } from './support/server-process';

/** `pnpm dev-server`: a Temporal server with its Web UI until Ctrl-C, for `pnpm worker`, `pnpm start` and your own code. */
async function main(interrupt: AbortSignal): Promise<number> {
  const { port, db } = parseServeOptions(process.argv.slice(2));
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
  return 0;
}

runMain(main);
