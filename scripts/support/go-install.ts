import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Commands that Go builds from one version of one module. */
export interface GoCommands {
  /** As `path@version`. */
  readonly packages: readonly string[];
  /** How many packages they consist of, as `go list -deps` counts them. */
  readonly count: number;
}

/** The Temporal CLI, which has the development server in it. */
export const TEMPORAL_CLI: GoCommands = { packages: ['github.com/temporalio/cli/cmd/temporal@v1.5.1'], count: 1_298 };

/** How many packages are built between two lines of progress. */
const STEP = 100;

/**
 * Builds commands into a directory, each whole or not at all: another process may look for them. Go names each package that it builds, and leaves out those that its own cache has: so the
 * count may jump to its end.
 */
export async function goInstall(
  { packages, count }: GoCommands,
  directory: string,
  progress: (line: string) => void,
): Promise<void> {
  await mkdir(directory, { recursive: true });
  const built = await mkdtemp(join(directory, 'building-'));
  try {
    await build(packages, count, built, progress);
    for (const name of await readdir(built)) await rename(join(built, name), join(directory, name));
  } finally {
    await rm(built, { recursive: true, force: true });
  }
}

async function build(
  packages: readonly string[],
  count: number,
  directory: string,
  progress: (line: string) => void,
): Promise<void> {
  const go = spawn('go', ['install', '-v', ...packages], {
    env: { ...process.env, GOBIN: directory },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let downloaded = 0;
  let built = 0;
  let last = '';
  createInterface(go.stderr).on('line', (line) => {
    last = `${last}\n${line}`.slice(-2_000);
    if (line.startsWith('go: downloading')) {
      if (downloaded++ === 0) progress('  Go downloads the sources …');
    } else if (/^[\w.~/-]+$/.test(line)) {
      built++;
      if (built % STEP === 0) progress(`  ${english(built)} of ${english(count)} packages are built …`);
    }
  });
  await new Promise<void>((resolve, reject) => {
    go.once('error', reject);
    go.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`exit code ${code}: ${last.trim()}`))));
  });
}

function english(number: number): string {
  return number.toLocaleString('en');
}
