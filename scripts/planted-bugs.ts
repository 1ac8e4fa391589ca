import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { PLANTED_BUGS } from '../test/reliability/planted-bugs/bugs';
import {
  declarationsOf,
  type Files,
  isSource,
  isTest,
  type PlantedBug,
  plant,
  readFiles,
  testOf,
} from '../test/reliability/planted-bugs/plant';
import { chaosAgainstBugs } from './support/chaos-against-bugs';
import { diesWithUs } from './support/dies-with-us';
import { findServer } from './support/find-server';
import { runMain } from './support/main';
import { SHARED_SERVER } from './support/prepared';
import { BUILDS, copyProject } from './support/project-copy';
import { spawnServer } from './support/server-process';

const ROOT = join(__dirname, '..');
/** A test that takes so long without a bug does not end at all. */
const CONTROL_LIMIT_MS = 10 * 60_000;
/** With a bug, a test does not end when it takes so much longer than without. */
const LIMIT_FACTOR = 4;
const LEAST_LIMIT_MS = 60_000;
const AT_ONCE = availableParallelism();
const FAILED = /^ *not ok \d+ - (.*)\n/m;

interface TestRun {
  passed: boolean;
  /** The name of the first test that failed, or that did not end within the limit. */
  failed: string | undefined;
  output: string;
}

/** A bug that is ready to be planted: a file with the bug in it, and the test that must fail. */
interface Prepared {
  name: string;
  file: string;
  planted: string;
  test: ReturnType<typeof testOf>;
}

/**
 * `pnpm planted-bugs [text…]`: plants each bug of the list, or those whose name, place or test has one of the texts, in a copy of
 * the project, and runs the test that must notice. Exit code 1 when one goes unnoticed. Each of these tests must pass without a bug.
 * With `--chaos`, the bugs are those that chaos must find.
 */
async function main(interrupt: AbortSignal): Promise<number> {
  const texts = process.argv.slice(2).filter((text) => text !== '--' && text !== '--chaos');
  if (process.argv.includes('--chaos')) return await chaosAgainstBugs(texts, interrupt);
  const sources = readFiles(ROOT, ['src'], isSource);
  const bugs = prepare(
    sources,
    PLANTED_BUGS.filter((bug) => {
      const said = [bug.name, bug.in, bug.caughtBy];
      return texts.length === 0 || texts.some((text) => said.some((it) => it.includes(text)));
    }),
  );
  if (bugs.length === 0) throw new Error(`No planted bug matches ${texts.join(', ')}.`);
  const source = await findServer();
  process.env.TEMPORAL_SEMAPHORE_SERVER = 'path' in source ? source.path : source.address;
  // One for all: most of these tests share theirs.
  const server = 'path' in source ? await spawnServer(source.path) : undefined;
  if (server) process.env[SHARED_SERVER] = server.address;
  await mkdir(BUILDS, { recursive: true });
  const copies = await Promise.all(
    Array.from({ length: Math.min(AT_ONCE, bugs.length) }, () => mkdtemp(join(BUILDS, 'planted-'))),
  );
  // A test that is killed leaves its files there. Not in the copy: a socket's path is short.
  process.env.TMPDIR = await mkdtemp(join(tmpdir(), 'planted-'));
  await chmod(process.env.TMPDIR, 0o711); // root runs PostgreSQL as another user, who must get in
  const unnoticed: string[] = [];
  try {
    await Promise.all(copies.map(copyProject));
    const controls = new Map(bugs.map(({ test }) => [JSON.stringify(test), test]));
    // A test that fails anyway catches nothing.
    const limits = new Map<string, number>();
    await inCopies(copies, [...controls], interrupt, async (copy, [key, test]) => {
      const tookMs = await checkControl(copy, test, interrupt);
      limits.set(key, Math.max(LEAST_LIMIT_MS, LIMIT_FACTOR * tookMs));
    });
    console.log(`${controls.size} tests pass without a bug.\n\n| planted bug | caught by |\n| --- | --- |`);
    await inCopies(copies, bugs, interrupt, async (copy, bug) => {
      const limitMs = limits.get(JSON.stringify(bug.test)) ?? CONTROL_LIMIT_MS;
      const by = await caughtBy(copy, bug, { source: sources.get(bug.file) ?? '', limitMs, interrupt });
      console.log(`| ${bug.name} | ${by ?? '**no test**'} |`);
      if (by === undefined) unnoticed.push(bug.name);
    });
  } finally {
    await server?.stop();
    for (const directory of [...copies, process.env.TMPDIR]) await rm(directory, { recursive: true, force: true });
  }
  console.log(`\n${bugs.length - unnoticed.length} of ${bugs.length} planted bugs were caught.`);
  return unnoticed.length === 0 ? 0 : 1;
}

/** Fails before any test runs, where one of the bugs can't be planted. */
function prepare(sources: Files, bugs: readonly PlantedBug[]): Prepared[] {
  const declarations = declarationsOf(sources);
  const tests = readFiles(ROOT, ['src', 'test'], isTest);
  return bugs.map((bug) => {
    const { file, text } = plant(declarations, bug);
    return { name: bug.name, file, planted: text, test: testOf(tests, bug.caughtBy) };
  });
}

/** Each copy takes the next item when it is done with one. After a failure, no other item is begun. */
async function inCopies<Item>(
  copies: readonly string[],
  items: readonly Item[],
  interrupt: AbortSignal,
  work: (copy: string, item: Item, interrupt: AbortSignal) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const lanes = copies.map(async (copy) => {
    try {
      for (let item = left.shift(); item; item = left.shift()) {
        interrupt.throwIfAborted();
        await work(copy, item, interrupt);
      }
    } catch (error) {
      left.length = 0;
      throw error;
    }
  });
  await Promise.allSettled(lanes);
  await Promise.all(lanes);
}

/** @returns how long it took, in milliseconds */
async function checkControl(copy: string, test: Prepared['test'], interrupt: AbortSignal): Promise<number> {
  const startedMs = performance.now();
  const { passed, output } = await run(copy, test, CONTROL_LIMIT_MS, interrupt);
  if (passed) return performance.now() - startedMs;
  const name = `${test.file} ${test.test ?? ''}`;
  throw new Error(`${name} fails without any bug, so it can't catch one:\n${output.slice(-2_000)}`);
}

/** @returns the name of the first test that failed; `undefined` when none did */
async function caughtBy(
  copy: string,
  { name, file, planted, test }: Prepared,
  { source, limitMs, interrupt }: { source: string; limitMs: number; interrupt: AbortSignal },
): Promise<string | undefined> {
  await writeFile(join(copy, file), planted);
  try {
    const { passed, failed, output } = await run(copy, test, limitMs, interrupt);
    if (passed) return undefined;
    // A bug that does not even load is no bug that a test has caught.
    if (failed === undefined) throw new Error(`${name}: no test failed by its name:\n${output.slice(-2_000)}`);
    return `\`${test.file}\`: ${failed}`;
  } finally {
    await writeFile(join(copy, file), source);
  }
}

async function run(
  copy: string,
  { file, test }: Prepared['test'],
  limitMs: number,
  interrupt: AbortSignal,
): Promise<TestRun> {
  const pattern = test === undefined ? [] : [`--test-name-pattern=${test.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}`];
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
  }, limitMs);
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
