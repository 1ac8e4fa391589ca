import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { diesWithUs } from './support/dies-with-us';
import { runMain } from './support/main';
import { isPure, runDirectory, type Tier, testFiles, writeEntries } from './support/test-files';

/** Most tests wait most of the time, for leases and the like: so more of them run at once than there are cores. */
const AT_ONCE: Record<Tier, number> = { unit: 1, all: availableParallelism() + 6, slow: 3, soak: 1 };

/** How long one test may take, also where something else keeps the machine busy. */
const LIMIT_MS: Record<Tier, number> = { unit: 120_000, all: 180_000, slow: 30 * 60_000, soak: 60 * 60_000 };

/**
 * - `pnpm test:unit [--watch] [text…]` runs the tests that need no server, no build and no other process.
 * - `pnpm test [text…]` runs these, and those on a real server, but not the slow ones.
 * - `pnpm test:slow [text…]` runs the slow ones, three at once: they wait most of the time, too.
 * - `pnpm test:soak [text…]` runs the longest ones, which CI does not run.
 *
 * With texts, only the files whose path has one of them. What these do not need is not looked for: no server, no build.
 */
async function main(interrupt: AbortSignal): Promise<number> {
  const { tier, isWatched, texts } = parse(process.argv.slice(2));
  const files = testFiles(tier, texts);
  if (files.length === 0) {
    console.error(`No test file has ${texts.map((text) => `"${text}"`).join(' or ')} in its path.`);
    return 1;
  }
  const env = { TEST_LIMIT_MS: String(LIMIT_MS[tier]) };
  if (files.every(isPure)) return await runPure(files, env, isWatched, interrupt);
  // Loaded only here: it loads the SDK.
  const { prepareTests } = await import('./support/test-preparation.js');
  const prepared = await prepareTests(files, tier);
  if (!prepared) return 1;
  try {
    interrupt.throwIfAborted();
    const flags = [`--test-concurrency=${AT_ONCE[tier]}`];
    return await runNode([...FLAGS, '--test', ...flags, ...prepared.entries], { ...env, ...prepared.env }, interrupt);
  } finally {
    await prepared.dispose();
  }
}

function parse(args: readonly string[]): { tier: Tier; isWatched: boolean; texts: string[] } {
  const tier = (['unit', 'slow', 'soak'] as const).find((it) => args[0] === `--${it}`) ?? 'all';
  const texts = args.slice(tier === 'all' ? 0 : 1).filter((arg) => arg !== '--');
  const isWatched = tier === 'unit' && texts.includes('--watch');
  return { tier, isWatched, texts: texts.filter((text) => !isWatched || text !== '--watch') };
}

const FLAGS = ['--import', 'tsx', '--test-reporter=spec'];

/** In one process; anew after each change of a file that it has loaded, if that is asked. */
async function runPure(
  files: readonly string[],
  env: Record<string, string>,
  isWatched: boolean,
  interrupt: AbortSignal,
): Promise<number> {
  const directory = await runDirectory();
  try {
    const entries = await writeEntries([files], directory);
    return await runNode([...FLAGS, ...(isWatched ? ['--watch'] : []), ...entries], env, interrupt);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** @returns the exit code of Node's test runner */
async function runNode(args: readonly string[], env: Record<string, string>, interrupt: AbortSignal): Promise<number> {
  const runner = spawn(process.execPath, args, {
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
