import { access, constants, mkdir, readdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { goInstall, TEMPORAL_CLI } from './go-install';

/** A Temporal server: the path of an executable to start, or the `host:port` of a running server. */
export type ServerSource = { path: string } | { address: string };

/** Called with each line to show. */
type Progress = (line: string) => void;

/** A way to get the executable that takes time. */
interface ServerStep {
  /** How progress and errors name it. */
  what: string;
  /** @returns the executable's path. @throws Error that says why it could not be had */
  attempt(progress: Progress): Promise<string>;
}

const ENV = 'TEMPORAL_SEMAPHORE_SERVER';
const EXECUTABLE = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
/** The directory of what this project keeps between its runs. */
export const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'temporal-semaphore');
/** The executable that we have built. */
const CACHED_EXECUTABLE = join(CACHE, 'bin', EXECUTABLE);
const DOWNLOADS = join(CACHE, 'download');

/** Some machines reach the Go proxy and not the SDK's download. */
const STEPS: readonly ServerStep[] = [
  { what: "the SDK's download of the Temporal CLI", attempt: download },
  {
    what: `go install ${TEMPORAL_CLI.packages[0]} (about 3 minutes and 3.5 GB of disk, once)`,
    async attempt(progress) {
      await goInstall(TEMPORAL_CLI, dirname(CACHED_EXECUTABLE), progress);
      return CACHED_EXECUTABLE;
    },
  },
];

/**
 * Finds a Temporal server for demo, tests and bench. The first of these wins: what `TEMPORAL_SEMAPHORE_SERVER` names (the path
 * of a `temporal` executable, or the `host:port` of a running server), `temporal` on the PATH, this project's cache, the SDK's
 * download, a build with Go. Each step that takes time reports its progress.
 *
 * @throws Error that lists everything tried
 */
export async function findServer(progress: Progress = (line) => console.error(line)): Promise<ServerSource> {
  const named = process.env[ENV];
  if (named) return await fromEnvironment(named);
  const found = (await onPath()) ?? (await executable(CACHED_EXECUTABLE)) ?? (await downloaded());
  if (found) return { path: found };

  const failures: string[] = [];
  for (const { what, attempt } of STEPS) {
    progress(`No Temporal server here yet. Trying ${what} …`);
    try {
      return { path: await attempt(progress) };
    } catch (error) {
      failures.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
      progress(`  failed: ${failures.at(-1)}`);
    }
  }
  throw new Error(
    [
      'Found no Temporal server.',
      `Install the Temporal CLI (https://docs.temporal.io/cli), or set ${ENV} to its path or to the host:port of a running server.`,
      `Tried: ${ENV} (not set); "${EXECUTABLE}" on PATH; ${CACHE}; ${failures.join('; ')}`,
    ].join('\n'),
  );
}

/** Whether `text` is a `host:port`. */
export function isAddress(text: string): boolean {
  return /^[^/\\\s]+:\d+$/.test(text);
}

async function fromEnvironment(named: string): Promise<ServerSource> {
  const path = await executable(named);
  if (path) return { path };
  if (isAddress(named)) return { address: named };
  throw new Error(`${ENV}: expected the path of a "temporal" executable or host:port, got "${named}"`);
}

async function onPath(): Promise<string | undefined> {
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const path = directory && (await executable(join(directory, EXECUTABLE)));
    if (path) return path;
  }
  return undefined;
}

async function executable(path: string): Promise<string | undefined> {
  try {
    await access(path, constants.X_OK);
    // A directory passes the check above as well.
    return (await stat(path)).isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}

/** The SDK names the file it downloads by its own version, so we look for whatever it has put there, and has whole. */
async function downloaded(): Promise<string | undefined> {
  const names = await readdir(DOWNLOADS).catch(() => []);
  for (const name of names
    .filter((name) => name.startsWith('temporal') && !name.endsWith('.downloading'))
    .sort()
    .reverse()) {
    const path = await executable(join(DOWNLOADS, name));
    if (path) return path;
  }
  return undefined;
}

async function download(): Promise<string> {
  // Loaded only here: it loads the SDK's native part.
  const { TestWorkflowEnvironment } = await import('@temporalio/testing');
  await mkdir(DOWNLOADS, { recursive: true });
  const probe = await TestWorkflowEnvironment.createLocal({
    server: { executable: { type: 'cached-download', downloadDir: DOWNLOADS } },
  });
  await probe.teardown();
  const path = await downloaded();
  if (!path) throw new Error(`the SDK left no executable in ${DOWNLOADS}`);
  return path;
}
