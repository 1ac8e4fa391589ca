import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { build } from 'esbuild';
import { bundleCommandLine } from '../../../scripts/support/bundle-command-line';
import type { BuiltActor, BuiltActors } from './command-lanes';

const ROOT = join(__dirname, '..', '..', '..');
/** Inside the package, so that what is built there finds the package's dependencies. */
const BUILDS = join(ROOT, '.test-build');

/**
 * Builds the actors, so that a process that is killed is soon back.
 * @param beside a commit whose actors are built too
 * @returns a directory for all that the run leaves behind
 */
export async function buildActors(beside?: string): Promise<{ directory: string; built: BuiltActors }> {
  await mkdir(BUILDS, { recursive: true });
  const directory = await mkdtemp(join(BUILDS, 'chaos-'));
  const lib = join(directory, 'lib');
  await copyFile(join(ROOT, 'package.json'), join(directory, 'package.json'));
  await bundleCommandLine(lib, 'inline');
  const built = { ...(await buildFrom(ROOT, directory)), commandLine: join(lib, 'cli', 'main.js') };
  if (beside === undefined) return { directory, built };
  const tree = join(directory, 'beside');
  await checkOut(beside, tree);
  return { directory, built: { ...built, beside: await buildFrom(tree, tree) } };
}

async function buildFrom(root: string, directory: string): Promise<BuiltActor> {
  // Earlier builds have them in another place.
  const places = ['test/reliability', 'test', 'scripts'].map((place) => join(root, place, 'chaos', 'actors'));
  const actors = places.find(existsSync);
  if (!actors) throw new Error(`No actors of a chaos run are in ${root}.`);
  const [actor, bundle] = [join(directory, 'actor.js'), join(directory, 'workflows.js')];
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(actors, 'workflows.ts'),
    workflowInterceptorModules: [join(actors, 'interceptor-workflows.ts')],
    logger: new DefaultLogger('ERROR'),
  });
  await writeFile(bundle, code);
  await build({
    entryPoints: [join(actors, 'main.ts')],
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'cjs',
    sourcemap: 'inline',
    logLevel: 'warning',
    logOverride: { 'require-resolve-not-external': 'silent' }, // permits are of the actors' own bundle
    outfile: actor,
  });
  return { actor, bundle };
}

/** The files of a commit, in a new directory. */
async function checkOut(commit: string, tree: string): Promise<void> {
  await mkdir(tree);
  const archive = `${tree}.tar`;
  execFileSync('git', ['archive', '--output', archive, commit], { cwd: ROOT });
  execFileSync('tar', ['-xf', archive, '-C', tree]);
}

/** The last lines of what each actor wrote, for the case that something went wrong. */
export async function lastWords(directory: string, names: readonly string[]): Promise<string> {
  const texts = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(directory, `${name}.log`), 'utf8').catch(() => '');
      return `${name}: ${text.trimEnd().split('\n').slice(-3).join('\n  ')}`;
    }),
  );
  return texts.join('\n');
}
