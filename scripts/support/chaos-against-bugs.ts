import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ChaosReport } from '../../test/reliability/chaos/report';
import { CHAOS_BUGS, type ChaosBug } from '../../test/reliability/planted-bugs/chaos-bugs';
import { declarationsOf, type Files, isSource, plant, readFiles } from '../../test/reliability/planted-bugs/plant';
import { diesWithUs } from './dies-with-us';
import { BUILDS, copyProject } from './project-copy';

const ROOT = join(__dirname, '..', '..');

/** With a few faults, and limits that are shorter than for a run of an hour: most of a run's time is its healing. */
const RUN = ['--minutes', '1', '--idle-limit', '30000', '--served-within', '60000'];
/** What one minute does not bring out, another may: three at most for each bug. */
const SEEDS = ['planted-1', 'planted-2', 'planted-3'];
const LIMIT_MS = 8 * 60_000;

/** The bug that is none. */
const NO_BUG = 'none';

interface Verdict {
  /** The checks that failed, each with how often. */
  caughtBy: string[];
  tookMs: number;
  /** The kinds of faults that came, also those that could not be carried out. */
  kinds: string[];
}

/**
 * `pnpm planted-bugs --chaos [text…]`: runs the chaos with each bug of the list, or those whose name, place or part has one of the
 * texts, planted in a copy of the project; up to three times, until a check notices it; and three times with none. Prints which check
 * caught which bug. Exit code 1 when one goes unnoticed, or when a run without a bug is not clean.
 */
export async function chaosAgainstBugs(texts: readonly string[], interrupt: AbortSignal): Promise<number> {
  const sources = readFiles(ROOT, ['src'], isSource);
  const declarations = declarationsOf(sources);
  const isWanted = ({ name, in: place, of }: ChaosBug) =>
    texts.length === 0 || texts.some((text) => [name, place, of].some((it) => it.includes(text)));
  const bugs = CHAOS_BUGS.filter(isWanted).map((bug) => ({ ...bug, planted: plant(declarations, bug) }));
  if (bugs.length === 0 && !texts.includes(NO_BUG)) throw new Error(`No planted bug matches ${texts.join(', ')}.`);
  await mkdir(BUILDS, { recursive: true });
  const copy = await mkdtemp(join(BUILDS, 'planted-chaos-'));
  const unnoticed: string[] = [];
  try {
    await copyProject(copy);
    console.log('| planted bug | of | caught by | took |\n| --- | --- | --- | --- |');
    const say = (name: string, of: string, { caughtBy, tookMs }: Verdict) =>
      console.log(`| ${name} | ${of} | ${caughtBy.join(', ') || '**no check**'} | ${Math.round(tookMs / 1_000)} s |`);
    const everyFault = [...new Set(CHAOS_BUGS.flatMap(({ faults }) => faults.split(',')))].join(',');
    if (texts.length === 0 || texts.includes(NO_BUG)) {
      for (const seed of SEEDS) {
        const control = await run(copy, ['--seed', seed, '--only', everyFault], interrupt);
        say(NO_BUG, '', control);
        if (control.caughtBy.length > 0) unnoticed.push(NO_BUG);
      }
    }
    for (const { planted, ...bug } of bugs) {
      const { name, of, faults } = bug;
      const verdict = await withBug(copy, planted, sources, () => runUntilCaught(copy, bug, interrupt));
      if (!hadAny(faults, verdict)) {
        console.log(`| ${name} | ${of} | left out: no ${faults} on this server | |`);
        continue;
      }
      say(name, of, verdict);
      if (verdict.caughtBy.length === 0) unnoticed.push(name);
    }
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
  return unnoticed.length === 0 ? 0 : 1;
}

async function withBug<T>(
  copy: string,
  { file, text }: { file: string; text: string },
  sources: Files,
  work: () => Promise<T>,
): Promise<T> {
  await writeFile(join(copy, file), text);
  try {
    return await work();
  } finally {
    await writeFile(join(copy, file), sources.get(file) ?? '');
  }
}

/** Not for a fault that this server lacks. */
function hadAny(faults: string, { kinds }: Verdict): boolean {
  return faults.split(',').some((kind) => kinds.includes(kind));
}

async function runUntilCaught(
  copy: string,
  { faults, everyMs = 2_500 }: ChaosBug,
  interrupt: AbortSignal,
): Promise<Verdict> {
  const options = ['--every', String(everyMs), '--only', faults];
  let last: Verdict = { caughtBy: [], tookMs: 0, kinds: [] };
  for (const seed of SEEDS) {
    const verdict = await run(copy, ['--seed', seed, ...options], interrupt);
    last = { ...verdict, tookMs: last.tookMs + verdict.tookMs };
    if (last.caughtBy.length > 0 || !hadAny(faults, last)) break;
  }
  return last;
}

/** One chaos run in the copy. */
async function run(copy: string, options: readonly string[], interrupt: AbortSignal): Promise<Verdict> {
  const startMs = performance.now();
  const json = join(copy, 'report.json');
  await rm(json, { force: true });
  const args = ['--import', 'tsx', join('scripts', 'chaos.ts'), ...RUN, ...options, '--json', json];
  const child = diesWithUs(
    spawn(process.execPath, args, {
      cwd: copy,
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: interrupt,
      killSignal: 'SIGINT',
    }),
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const tooLong = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  await once(child, 'close').finally(() => clearTimeout(tooLong));
  interrupt.throwIfAborted();
  const report = await readFile(json, 'utf8').then(
    (text) => JSON.parse(text) as ChaosReport,
    () => undefined,
  );
  // Without a verdict nothing was caught: the bug may not even load.
  if (!report) throw new Error(`The run has no verdict:\n${output.slice(-3_000)}`);
  await rm(join(copy, '.test-build'), { recursive: true, force: true });
  const failed = report.invariants.filter(({ violations }) => violations.length > 0);
  if (process.env.PLANTED_CHAOS_SAYS)
    console.error(failed.map(({ id, violations }) => `${id}: ${violations.slice(0, 2).join('\n    ')}`).join('\n'));
  return {
    caughtBy: failed.map(({ id, violations }) => `${id} (${violations.length})`),
    tookMs: performance.now() - startMs,
    kinds: Object.keys({ ...report.faults, ...report.faultsNotDone }),
  };
}
