import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { build } from 'esbuild';
import type { ServerSource } from '@/dev-server/binary';
import { spawnServer } from '@/dev-server/process';
import { prebuiltBundle } from '@/worker/prebuilt-bundle';
import { bundleCommandLine } from './bundle-command-line';
import { BUILT_COMMAND_LINE, PREPARED_BUNDLES, SHARED_SERVER } from './prepared';
import { bundleFile, writeBundle } from './workflow-bundles';

const ROOT = join(__dirname, '..', '..');
const SRC = join(ROOT, 'src');
/** Inside the package, so that what is built there finds the package's dependencies. */
const BUILDS = join(ROOT, '.test-build');

/** The Workflows of nearly every test file, and those of the scripts that several of them start. */
const TEST_WORKFLOWS = join(ROOT, 'test', 'support', 'workflows.ts');
const EXAMPLE_WORKFLOWS = join(ROOT, 'scripts', 'support', 'workflows.ts');

/** By the time that they took on a quiet machine. */
const LONGEST = [
  'wait-queue',
  'package',
  'interop',
  'cli-operate',
  'cli',
  'client-loss',
  'operate',
  'client',
  'cli-hostile',
  'stuck-queue',
  'example-fenced-ledger',
  'hostile-input',
  'unpolled',
  'hostile-turns',
  'crash',
  'semaphore',
  'queue-continue-as-new',
  'dashboard',
  'stale-writes',
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
  const pure = files.filter((file) => file.startsWith('src'));
  const others = files.filter((file) => !pure.includes(file));
  const many = others.length > 3;
  await mkdir(BUILDS, { recursive: true });
  const directory = await mkdtemp(join(BUILDS, 'run-'));
  const lib = join(directory, 'lib');
  await buildPackage(directory, lib);
  const server = many && 'path' in source ? await spawnServer(source.path) : undefined;
  if (many) {
    await writeBundle(TEST_WORKFLOWS, bundleFile(directory, TEST_WORKFLOWS));
    await writeBundle(EXAMPLE_WORKFLOWS, bundleFile(directory, EXAMPLE_WORKFLOWS));
    await writeBundle(join(SRC, 'workflows.ts'), prebuiltBundle(lib));
  }
  return {
    entries: await writeEntries(
      [...(pure.length > 0 ? [pure] : []), ...inOrder(others).map((file) => [file])],
      directory,
    ),
    env: {
      [PREPARED_BUNDLES]: directory,
      [BUILT_COMMAND_LINE]: join(lib, 'cli', 'main.js'),
      ...(server && { [SHARED_SERVER]: server.address }),
    },
    async dispose() {
      await server?.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/**
 * Writes a file that loads the tests of each group. Node's test runner starts them in the order of their names. Pure tests
 * take milliseconds, and a process for each file half a second, so they are one group.
 */
async function writeEntries(groups: readonly (readonly string[])[], directory: string): Promise<string[]> {
  return await Promise.all(
    groups.map(async ([first = '', ...more], index) => {
      const name = more.length > 0 ? 'pure' : basename(first, '.test.ts');
      const entry = join(directory, `${String(index).padStart(3, '0')}-${name}.test.cjs`);
      const loads = [first, ...more].map((file) => `require(${JSON.stringify(join(ROOT, file))});\n`);
      await writeFile(entry, loads.join(''));
      return entry;
    }),
  );
}

/** The longest first, so that none of them is left alone at the end. */
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
  // A permit worker takes these where there is no prebuilt bundle of them.
  await build({
    entryPoints: [join(SRC, 'workflows.ts')],
    bundle: true,
    packages: 'external',
    format: 'cjs',
    logLevel: 'warning',
    outdir: lib,
  });
}
