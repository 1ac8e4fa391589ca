import { type Command, InvalidArgumentError } from 'commander';
import { resolveServer } from '../dev-server/binary';
import { type ServeOptions, serve, UI_OFFSET } from '../dev-server/serve';
import { say } from './render';

const MAX_PORT = 65_535 - UI_OFFSET;

const HELP = `
Examples:
  temporal-semaphore server
  temporal-semaphore server --port 7300 --db temporal.sqlite
`;

export function addServer(program: Command, done: (exitCode: number) => void): void {
  program
    .command('server')
    .summary('run a Temporal server for development')
    .description(
      'Runs a Temporal server for development, with its Web UI, until Ctrl-C. It takes the executable that TEMPORAL_SEMAPHORE_SERVER names, or `temporal` on the PATH, or downloads one.',
    )
    .option('--port <n>', `the server's port; the Web UI's is ${UI_OFFSET} higher`, parsePort, 7233)
    .option('--db <file>', 'keep the state in this file, so that it outlives the server')
    .addHelpText('after', HELP)
    .action(async (options: ServeOptions) => {
      const interrupt = new AbortController();
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => interrupt.abort());
      await serve(options, () => resolveServer(say), interrupt.signal);
      done(0);
    });
}

function parsePort(text: string): number {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > MAX_PORT) throw new InvalidArgumentError(`Expected a whole number from 1 to ${MAX_PORT}.`);
  return port;
}
