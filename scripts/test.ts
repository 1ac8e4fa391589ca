import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { diesWithUs } from './support/dies-with-us';
import { findServer } from './support/find-server';
import { runMain } from './support/main';
import { preflight } from './support/preflight';
import { prepareTests } from './support/test-preparation';

/** Much load, a measurement that nothing may disturb, or the package as npm installs it: they run by themselves, one after the other. */
const SOAK = '.soak.test.ts';

/** Most tests wait most of the time, for leases and the like: so more of them run at once than there are cores. */
const AT_ONCE = availableParallelism() + 4;

/**
 * `pnpm test [text…]` runs every test file, or those whose path has one of the texts. `pnpm test:soak [text…]` does the same
 * with the soaks.
 */
async function main(interrupt: AbortSignal): Promise<number> {
  const [soaks, texts] = process.argv[2] === '--soak' ? [true, process.argv.slice(3)] : [false, process.argv.slice(2)];
  const files = testFiles().filter(
    (file) => file.endsWith(SOAK) === soaks && (texts.length === 0 || texts.some((text) => file.includes(text))),
  );
  if (files.length === 0) {
    console.error(`No test file has ${texts.map((text) => `"${text}"`).join(' or ')} in its path.`);
    return 1;
  }
  const source = await findServer();
  process.env.TEMPORAL_SEMAPHORE_SERVER = 'path' in source ? source.path : source.address;
  if (!(await preflight())) return 1;
  const { env, entries, dispose } = await prepareTests(files, source);
  try {
    interrupt.throwIfAborted();
    const [more, atOnce] = soaks ? [{}, 1] : [cheaper(), AT_ONCE];
    return await runFiles(entries, { ...env, ...more }, atOnce, interrupt);
  } finally {
    await dispose();
  }
}

function testFiles(): string[] {
  return ['src', 'test']
    .flatMap((directory) =>
      readdirSync(directory, { recursive: true, encoding: 'utf8' }).map((name) => join(directory, name)),
    )
    .filter((file) => file.endsWith('.test.ts'))
    .sort();
}

/** Spares work that no test looks at. Not for what measures. */
function cheaper(): Record<string, string> {
  const preload = `--require ${JSON.stringify(require.resolve('./support/no-promise-stacks.cjs'))}`;
  return {
    NODE_OPTIONS: [process.env.NODE_OPTIONS, preload].filter(Boolean).join(' '),
    // The dev server's heap is small, so that Go would collect its garbage many times a second.
    GOGC: process.env.GOGC ?? '400',
  };
}

/** @returns the exit code of Node's test runner */
async function runFiles(
  files: readonly string[],
  env: Record<string, string>,
  atOnce: number,
  interrupt: AbortSignal,
): Promise<number> {
  const flags = ['--import', 'tsx', '--test', '--test-reporter=spec', `--test-concurrency=${atOnce}`];
  const runner = spawn(process.execPath, [...flags, ...files], {
    env: { ...process.env, ...env },
    stdio: 'inherit',
    detached: true, // a process group: the runner leaves its files' processes behind, and a worker in them traps SIGTERM
  });
  diesWithUs(runner, 'SIGTERM');
  interrupt.addEventListener('abort', () => runner.pid && process.kill(-runner.pid, 'SIGKILL'));
  const [code] = await once(runner, 'close');
  interrupt.throwIfAborted();
  return code ?? 1;
}

runMain(main);
