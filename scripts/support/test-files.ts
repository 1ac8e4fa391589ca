import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { basename, join, sep } from 'node:path';

const ROOT = join(__dirname, '..', '..');

/** Inside the package, so that what is built there finds the package's dependencies. */
const BUILDS = join(ROOT, '.test-build');

/** Which tests a command runs: the pure ones, these and the fast ones, the slow ones, or those that take a quarter of an hour. */
export type Tier = 'unit' | 'all' | 'slow' | 'soak';

/** `slow`: much load, a long lease, many seeds, a measurement that nothing may disturb, or the package as npm installs it. */
const APART = /\.(slow|soak)\.test\.ts$/;

/** The rooms of tests that need no server, no build and no other process. */
const PURE = ['src', join('test', 'unit'), join('test', 'reliability')];

/** The test files of a tier whose path has one of the texts; all of the tier where there are no texts. */
export function testFiles(tier: Tier, texts: readonly string[]): string[] {
  return ['src', 'test']
    .flatMap((directory) =>
      readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' }).map((name) => join(directory, name)),
    )
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => (APART.exec(file)?.[1] ?? 'all') === (tier === 'unit' ? 'all' : tier))
    .filter((file) => tier !== 'unit' || isPure(file))
    .filter((file) => texts.length === 0 || texts.some((text) => file.includes(text)))
    .sort();
}

export function isPure(file: string): boolean {
  return !APART.test(file) && PURE.some((room) => file.startsWith(room + sep));
}

/** Whether the text of a test file has this. */
export function mentions(file: string, pattern: RegExp): boolean {
  return pattern.test(readFileSync(join(ROOT, file), 'utf8'));
}

/** A directory for what one run of the tests makes. */
export async function runDirectory(): Promise<string> {
  await mkdir(BUILDS, { recursive: true });
  return await mkdtemp(join(BUILDS, 'run-'));
}

/**
 * Writes a file for each group, which loads the tests of the group into one process: to load the SDK takes a process two seconds
 * of work. Node's test runner starts them in the order of their names.
 */
export async function writeEntries(groups: readonly (readonly string[])[], directory: string): Promise<string[]> {
  return await Promise.all(
    groups.map(async (files, index) => {
      const name = basename(files[0] ?? '', '.test.ts');
      const entry = join(directory, `${String(index).padStart(3, '0')}-${name}.test.cjs`);
      const loads = [join('test', 'support', 'limits'), ...files].map(
        (file) => `require(${JSON.stringify(join(ROOT, file))});\n`,
      );
      await writeFile(entry, loads.join(''));
      return entry;
    }),
  );
}
