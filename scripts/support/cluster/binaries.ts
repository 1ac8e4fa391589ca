import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { CACHE } from '../find-server';
import { goInstall } from '../go-install';

/** The version of the server that the development server of the tests has in it, too. */
export const SERVER_VERSION = 'v1.29.1';

const COMMANDS = ['server', 'tools/sql'];

/** The server as companies run it, and the tool that makes its tables. */
export interface ClusterBinaries {
  readonly server: string;
  readonly sql: string;
}

/**
 * Finds the cluster's binaries in this project's cache, or builds them into it.
 * @param version a tag of the Go module `go.temporal.io/server`
 * @throws Error that says what is needed
 */
export async function clusterBinaries(version: string, progress: (line: string) => void): Promise<ClusterBinaries> {
  const packages = COMMANDS.map((command) => `go.temporal.io/server/cmd/${command}@${version}`);
  const directory = join(CACHE, 'cluster', version);
  const binaries = { server: join(directory, 'server'), sql: join(directory, 'sql') };
  const there = await Promise.all(Object.values(binaries).map((path) => access(path))).then(
    () => true,
    () => false,
  );
  if (there) return binaries;
  progress(`No server of a cluster here yet. Go builds ${packages.join(' and ')} (about 4 minutes, once) …`);
  try {
    await goInstall({ packages, count: 1_259 }, directory, progress);
  } catch (cause) {
    throw new Error(`A server ${version} needs Go (https://go.dev/dl) and its module proxy`, { cause });
  }
  return binaries;
}
