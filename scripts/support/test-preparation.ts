import { readFileSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { build } from 'esbuild';
import { prebuiltBundle } from '@/worker/prebuilt-bundle';
import { bundleCommandLine } from './bundle-command-line';
import type { ServerSource } from './find-server';
import { BUILT_COMMAND_LINE, PREPARED_BUNDLES, SHARED_SERVER } from './prepared';
import { type ServerProcess, spawnServer } from './server-process';
import { bundleFile, writeBundle } from './workflow-bundles';

const ROOT = join(__dirname, '..', '..');
const SRC = join(ROOT, 'src');
/** Inside the package, so that what is built there finds the package's dependencies. */
const BUILDS = join(ROOT, '.test-build');

/** The Workflows of nearly every test file, and those of the scripts that several of them start. */
const TEST_WORKFLOWS = join(ROOT, 'test', 'support', 'workflows.ts');
const EXAMPLE_WORKFLOWS = join(ROOT, 'scripts', 'support', 'workflows.ts');
const CLI_HOST = join(ROOT, 'test', 'support', 'cli-host-main.ts');

/** How many processes share the files that share a server. */
const LANES = 9;

/**
 * What takes longest, by the time that it took on a quiet machine. It starts first, so that none of it is left alone at the end;
 * and of the files that share processes, each of these is in another one.
 */
const LONGEST = [
  'wait-queue',
  'many-permits',
  'interop',
  'unpolled',
  'hostile-input',
  'cli-operate',
  'cli',
  'client-loss',
  'operate',
  'stuck-queue',
  'client',
  'hostile-turns',
  'crash',
  'semaphore',
  'queue-continue-as-new',
  'dashboard',
  'limit-activities',
  'dashboard-page',
  'demo',
];

export interface Preparation {
  /** Tells the test files of it. */
  readonly env: Record<string, string>;
  /** The files to run. */
  readonly entries: readonly string[];
  dispose(): Promise<void>;
}

/**
 * Makes once what every test file would otherwise make for itself. For a few files a server, and bundles that they may not
 * need, would be work for nothing.
 */
export async function prepareTests(files: readonly string[], source: ServerSource): Promise<Preparation> {
  const ordered = inOrder(files);
  const pure = ordered.filter(isPure);
  const sharing = ordered.filter(sharesServer);
  const alone = ordered.filter((file) => !pure.includes(file) && !sharing.includes(file));
  const groups = [...lanes(sharing), ...alone.map((file) => [file]), pure].filter((group) => group.length > 0);
  const many = sharing.length + alone.length > 3;
  await mkdir(BUILDS, { recursive: true });
  const directory = await mkdtemp(join(BUILDS, 'run-'));
  const lib = join(directory, 'lib');
  let server: ServerProcess | undefined;
  const dispose = async () => {
    await server?.stop();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await buildPackage(directory, lib);
    if (many && 'path' in source) server = await spawnServer(source.path);
    if (many) {
      await writeBundle(TEST_WORKFLOWS, bundleFile(directory, TEST_WORKFLOWS));
      await writeBundle(EXAMPLE_WORKFLOWS, bundleFile(directory, EXAMPLE_WORKFLOWS));
      await writeBundle(join(SRC, 'workflows.ts'), prebuiltBundle(lib));
    }
    return {
      entries: await writeEntries(groups, directory),
      env: {
        [PREPARED_BUNDLES]: directory,
        [BUILT_COMMAND_LINE]: join(lib, 'cli', 'main.js'),
        ...(server && { [SHARED_SERVER]: server.address }),
      },
      dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Tests that need neither a server nor other processes take milliseconds. */
function isPure(file: string): boolean {
  return file.startsWith('src') || file.startsWith(join('test', 'unit'));
}

/** Files of tests that stand the company of others at their server can as well share a process, and its worker, with them. */
function sharesServer(file: string): boolean {
  return readFileSync(join(ROOT, file), 'utf8').includes('useTemporal({ shared: true })');
}

/** A process takes two seconds of work to load the SDK, for itself and its workers. So a few run many files, each one after the other. */
function lanes(files: readonly string[]): string[][] {
  const made = Array.from({ length: Math.min(LANES, files.length) }, (): string[] => []);
  for (const [index, file] of files.entries()) {
    // There and back, so that the first lane does not get the longest of each round.
    const [round, place] = [Math.floor(index / made.length), index % made.length];
    made[round % 2 === 0 ? place : made.length - 1 - place]?.push(file);
  }
  return made;
}

/** Writes a file that loads the tests of each group. Node's test runner starts them in the order of their names. */
async function writeEntries(groups: readonly (readonly string[])[], directory: string): Promise<string[]> {
  return await Promise.all(
    groups.map(async (files, index) => {
      const name = basename(files[0] ?? '', '.test.ts');
      const entry = join(directory, `${String(index).padStart(3, '0')}-${name}.test.cjs`);
      const loads = files.map((file) => `require(${JSON.stringify(join(ROOT, file))});\n`);
      await writeFile(entry, loads.join(''));
      return entry;
    }),
  );
}

function inOrder(files: readonly string[]): string[] {
  const place = (file: string) => {
    const index = LONGEST.indexOf(basename(file, '.test.ts'));
    return index < 0 ? LONGEST.length : index;
  };
  return [...files].sort((a, b) => place(a) - place(b));
}

/** The command line as it is published: it starts in half the time that it takes from source. */
async function buildPackage(directory: string, lib: string): Promise<void> {
  await copyFile(join(ROOT, 'package.json'), join(directory, 'package.json'));
  await bundleCommandLine(lib, 'inline');
  // A permit worker takes the Workflows where there is no prebuilt bundle of them. The host stands beside what its commands start.
  await build({
    entryPoints: { workflows: join(SRC, 'workflows.ts'), 'cli/cli-host-main': CLI_HOST },
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'cjs',
    logOverride: { 'require-resolve-not-external': 'silent' },
    logLevel: 'warning',
    outdir: lib,
  });
}
