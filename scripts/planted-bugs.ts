import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PLANTED_BUGS, type PlantedBug } from '../test/planted-bugs/bugs';
import { diesWithUs } from './support/dies-with-us';
import { findServer } from './support/find-server';
import { runMain } from './support/main';
import { SHARED_SERVER } from './support/prepared';
import { spawnServer } from './support/server-process';

const ROOT = join(__dirname, '..');
/** On a copy of the project, so that nobody finds a planted bug where it does not belong. */
const BUILDS = join(ROOT, '.test-build');
/** The slowest of these tests takes 30 s without a bug. */
const LIMIT_MS = 90_000;
const FAILED = /^ *not ok \d+ - (.*)\n/m;

interface TestRun {
  passed: boolean;
  /** The name of the first test that failed, or that did not end within the limit. */
  failed: string | undefined;
  output: string;
}

/**
 * `pnpm planted-bugs [text…]`: plants each bug of the list, or those whose name or file has one of the texts, in a copy of the
 * project, and runs the tests that must notice. Exit code 1 when one goes unnoticed. Each of these tests must pass without a bug.
 */
async function main(interrupt: AbortSignal): Promise<number> {
  const texts = process.argv.slice(2).filter((text) => text !== '--');
  const bugs = PLANTED_BUGS.filter(
    ({ name, file }) => texts.length === 0 || texts.some((text) => name.includes(text) || file.includes(text)),
  );
  const source = await findServer();
  process.env.TEMPORAL_SEMAPHORE_SERVER = 'path' in source ? source.path : source.address;
  // One for all: most of these tests share theirs.
  const server = 'path' in source ? await spawnServer(source.path) : undefined;
  if (server) process.env[SHARED_SERVER] = server.address;
  await mkdir(BUILDS, { recursive: true });
  const copy = await mkdtemp(join(BUILDS, 'planted-'));
  // A test that is killed leaves its files there. Not in the copy: a socket's path is short.
  process.env.TMPDIR = await mkdtemp(join(tmpdir(), 'planted-'));
  const unnoticed: string[] = [];
  try {
    await copyProject(copy);
    await checkControls(copy, bugs, interrupt);
    console.log('| planted bug | caught by |\n| --- | --- |');
    for (const bug of bugs) {
      interrupt.throwIfAborted();
      const by = await caughtBy(copy, bug, interrupt);
      console.log(`| ${bug.name} | ${by ?? '**nobody**'} |`);
      if (by === undefined) unnoticed.push(bug.name);
    }
  } finally {
    await server?.stop();
    for (const directory of [copy, process.env.TMPDIR]) await rm(directory, { recursive: true, force: true });
  }
  console.log(`\n${bugs.length - unnoticed.length} of ${bugs.length} planted bugs were caught.`);
  return unnoticed.length === 0 && bugs.length > 0 ? 0 : 1;
}

async function copyProject(copy: string): Promise<void> {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  for (const file of files.trim().split('\n')) {
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await cp(join(ROOT, file), join(copy, file)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error; // deleted, and git does not know yet
    });
  }
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
}

/** A test that fails anyway catches nothing. */
async function checkControls(copy: string, bugs: readonly PlantedBug[], interrupt: AbortSignal): Promise<void> {
  const tests = new Map(bugs.map(({ caughtBy }) => [JSON.stringify(caughtBy), caughtBy]));
  for (const test of tests.values()) {
    interrupt.throwIfAborted();
    const { passed, output } = await run(copy, test, interrupt);
    if (!passed)
      throw new Error(
        `${test.file} ${test.test ?? ''} fails without any bug, so it can't catch one:\n${output.slice(-2_000)}`,
      );
  }
  console.log(`${tests.size} tests pass without a bug.\n`);
}

/** @returns the name of the first test that failed; `undefined` when none did */
async function caughtBy(
  copy: string,
  { name, file, find, replace, caughtBy }: PlantedBug,
  interrupt: AbortSignal,
): Promise<string | undefined> {
  const path = join(copy, file);
  const text = await readFile(path, 'utf8');
  const found = text.split(find).length - 1;
  if (found !== 1)
    throw new Error(`${name}: expected its text once in ${file}, found it ${found} times. Plant it anew.`);
  await writeFile(
    path,
    text.replace(find, () => replace),
  );
  try {
    const { passed, failed, output } = await run(copy, caughtBy, interrupt);
    if (passed) return undefined;
    // A bug that does not even load is no bug that a test has caught.
    if (failed === undefined) throw new Error(`${name}: no test failed by its name:\n${output.slice(-2_000)}`);
    return `\`${caughtBy.file}\`: ${failed}`;
  } finally {
    await writeFile(path, text);
  }
}

async function run(copy: string, { file, test }: PlantedBug['caughtBy'], interrupt: AbortSignal): Promise<TestRun> {
  const pattern = test === undefined ? [] : [`--test-name-pattern=^${test.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}`];
  // The file itself, not `--test`: a test that hangs is then in this process, and ends with it.
  const child = diesWithUs(
    spawn(process.execPath, ['--import', 'tsx', '--test-reporter=tap', ...pattern, file], {
      cwd: copy,
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: interrupt,
      killSignal: 'SIGKILL',
    }),
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (FAILED.test(output)) child.kill('SIGKILL'); // one is enough, and what it left running may keep the process up
    });
  }
  let hung = false;
  const tooLong = setTimeout(() => {
    hung = child.kill('SIGKILL');
  }, LIMIT_MS);
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(tooLong);
  const by = FAILED.exec(output)?.[1]?.replaceAll('|', '\\|');
  const ran = /^ *ok \d+ - (?!.*# SKIP)/m.test(output);
  return {
    passed: code === 0 && ran,
    failed: by ?? (hung ? `${test ?? 'a test'}: it does not end` : undefined),
    output,
  };
}

runMain(main);
