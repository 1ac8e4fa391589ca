import { copyFile, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { build } from 'esbuild';
import { bundleCommandLine } from './bundle-command-line';
import { findServer } from './find-server';
import { packedPackage } from './pack-package';
import { preflight } from './preflight';
import { BUILT_COMMAND_LINE, PACKED_PACKAGE, PREPARED_BUNDLES, SHARED_SERVER } from './prepared';
import { spawnServer } from './server-process';
import { isPure, mentions, runDirectory, type Tier, writeEntries } from './test-files';
import { bundleFile, writeBundle } from './workflow-bundles';

const ROOT = join(__dirname, '..', '..');
const SRC = join(ROOT, 'src');

/** The Workflows of nearly every test file. */
const TEST_WORKFLOWS = join(ROOT, 'test', 'support', 'workflows.ts');
const CLI_HOST = join(ROOT, 'test', 'support', 'cli-host-main.ts');

/** How many processes share the files that share a server. */
const LANES = 7;

/**
 * How long the longest files take, in seconds, on a quiet machine. They start first, so that none of them is left alone at the
 * end, and the processes that share the files end together.
 */
const SECONDS: Readonly<Record<string, number>> = {
  'contract/sets': 92,
  'contract/permits': 74,
  'contract/line': 72,
  'workflows/queue/wait-queue': 58,
  'worker/limit-activities': 47,
  'workflows/holder/permit-set': 46,
  'cli/cli-operate': 43,
  'workflows/holder/adoption': 41,
  'workflows/holder/limited-workflows': 35,
  'operator/operate': 32,
  'worker/permit-worker': 28,
  'contract/keys': 31,
  'workflows/holder/key-pool': 28,
  'workflows/holder/semaphore': 26,
  'cli/cli': 22,
  'contract/held': 20,
  'workflows/queue/offers': 17,
  'contract/loss': 17,
  'operator/inspect': 16,
  'workflows/permit/permit-slot': 14,
  'cli/cli-limits': 13,
  'fencing/postgres-fence': 11,
  'fencing/fencing-activity': 11,
  'workflows/holder/self-deadlock': 10,
  'client/pool/permit-pool': 10,
};
const OTHERS_SECONDS = 5;

/** What a test file mentions that starts or joins a Temporal server. */
const SERVER = /useTemporal|contract\(|startServer|findServer/;

/** What a test file mentions whose hooks, or stand-ins, are no company for other files in its process. */
const HOOKED = /use(Temporal|Postgres|Browser)|Runtime\.install|mock\.method\(process/;

/** What a test file mentions that runs the built command line. */
const COMMAND_LINE = /CliProcess|CliHost|BUILT_COMMAND_LINE|-process'|run-command'/;

/** What a test file mentions that installs the package from its tarball. */
const PACKAGE = /installPackage|useProgram/;

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
 *
 * @returns `undefined` where the tests can't be run, which it has told
 */
export async function prepareTests(files: readonly string[], tier: Tier): Promise<Preparation | undefined> {
  const ordered = inOrder(files);
  const pure = ordered.filter(isPure);
  // A slow test has a process, and the machine, to itself.
  const others = ordered.filter((file) => !pure.includes(file));
  const sharing = tier === 'all' ? others.filter((file) => mentions(file, /useTemporal\(\{ shared: true \}\)/)) : [];
  const light = tier === 'all' ? others.filter((file) => !mentions(file, HOOKED)) : [];
  const own = others.filter((file) => !sharing.includes(file) && !light.includes(file)).map((file) => [file]);
  const groups = [...lanes(sharing), ...own, light, pure].filter((group) => group.length > 0);
  const several = others.length > 3;
  const many = tier === 'all' && several;

  // A file that needs a server and is not told where looks for itself: here it would be told late, or twice.
  const source = many || files.some((file) => mentions(file, SERVER)) ? await findServer() : undefined;
  // The dev server's heap is small, so that Go would collect its garbage many times a second; and each of its many goroutines
  // would begin with a stack that is too small. Not where something is measured.
  if (tier === 'all') {
    process.env.GOGC ??= '400';
    process.env.GODEBUG ??= 'adaptivestackstart=1';
  }
  if (source) process.env.TEMPORAL_SEMAPHORE_SERVER = 'path' in source ? source.path : source.address;
  if (!(await preflight(files))) return undefined;

  const directory = await runDirectory();
  const lib = join(directory, 'lib');
  const starting = many && source && 'path' in source ? spawnServer(source.path) : undefined;
  const dispose = async () => {
    await starting?.then((server) => server.stop()).catch(() => undefined);
    await rm(directory, { recursive: true, force: true });
  };
  try {
    const [server, packed] = await Promise.all([
      starting,
      // Several files install it, and two builds at once would disturb each other.
      files.some((file) => mentions(file, PACKAGE)) && packedPackage(directory),
      (many || files.some((file) => mentions(file, COMMAND_LINE))) && buildPackage(directory, lib),
      several && writeBundle(TEST_WORKFLOWS, bundleFile(directory, TEST_WORKFLOWS)),
    ]);
    return {
      entries: await writeEntries(groups, directory),
      env: {
        [PREPARED_BUNDLES]: directory,
        [BUILT_COMMAND_LINE]: join(lib, 'cli', 'main.js'),
        ...(server && { [SHARED_SERVER]: server.address }),
        ...(packed && { [PACKED_PACKAGE]: packed }),
        ...(tier === 'all' && cheaper()),
      },
      dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Spares work that no test looks at. Not for what measures. */
function cheaper(): Record<string, string> {
  const preload = `--require ${JSON.stringify(require.resolve('./cheaper-workflows.cjs'))}`;
  return {
    NODE_OPTIONS: [process.env.NODE_OPTIONS, preload].filter(Boolean).join(' '),
    // The SDK runs Workflows in the worker's own thread, and does not call a Workflow Task of a busy machine a deadlock.
    TEMPORAL_DEBUG: '1',
  };
}

/** A process takes two seconds of work to load the SDK, for itself and its workers. So a few run many files, each one after the other. */
function lanes(files: readonly string[]): string[][] {
  const made = Array.from({ length: Math.min(LANES, files.length) }, () => ({ files: [] as string[], seconds: 0 }));
  for (const file of files) {
    const shortest = made.reduce((a, b) => (b.seconds < a.seconds ? b : a));
    shortest.files.push(file);
    shortest.seconds += secondsOf(file);
  }
  return made.map((lane) => lane.files);
}

function inOrder(files: readonly string[]): string[] {
  return [...files].sort((a, b) => secondsOf(b) - secondsOf(a));
}

function secondsOf(file: string): number {
  return SECONDS[relative('test', file).replace(/\.test\.ts$/, '')] ?? OTHERS_SECONDS;
}

/** The command line as it is published: it starts in half the time that it takes from source. */
async function buildPackage(directory: string, lib: string): Promise<void> {
  await copyFile(join(ROOT, 'package.json'), join(directory, 'package.json'));
  await bundleCommandLine(lib, 'inline');
  // A permit worker bundles the Workflows where there is no prebuilt bundle of them. The host stands beside what its commands start.
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
