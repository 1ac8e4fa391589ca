import { dirname } from 'node:path';
import { CACHED_EXECUTABLE, resolveServer, type ServerSource, type ServerStep } from '@/dev-server/binary';
import { goInstall, TEMPORAL_CLI } from './go-install';

const GO_BUILD: ServerStep = {
  what: `go install ${TEMPORAL_CLI.packages[0]} (about 3 minutes and 3.5 GB of disk, once)`,
  async attempt(progress) {
    const directory = dirname(CACHED_EXECUTABLE);
    await goInstall(TEMPORAL_CLI, directory, progress);
    return CACHED_EXECUTABLE;
  },
};

/**
 * Finds a Temporal server for demo, tests and bench. It looks where the command line does, and at last builds one with Go:
 * some machines that run the tests reach the Go proxy and not the SDK's download.
 */
export async function findServer(): Promise<ServerSource> {
  return await resolveServer((line) => console.error(line), [GO_BUILD]);
}
