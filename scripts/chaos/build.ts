import { copyFile, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { build } from 'esbuild';
import { bundleCommandLine } from '../support/bundle-command-line';
import type { BuiltActors } from './command-lanes';

const ROOT = join(__dirname, '..', '..');
/** Inside the package, so that what is built there finds the package's dependencies. */
const BUILDS = join(ROOT, '.test-build');
const ACTORS = join(__dirname, 'actors');

/** Builds the actors, so that a process that is killed is soon back. @returns a directory for all that the run leaves behind */
export async function buildActors(): Promise<{ directory: string; built: BuiltActors }> {
  await mkdir(BUILDS, { recursive: true });
  const directory = await mkdtemp(join(BUILDS, 'chaos-'));
  const lib = join(directory, 'lib');
  await copyFile(join(ROOT, 'package.json'), join(directory, 'package.json'));
  const bundle = join(directory, 'workflows.js');
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(ACTORS, 'workflows.ts'),
    workflowInterceptorModules: [join(ACTORS, 'interceptor-workflows.ts')],
    logger: new DefaultLogger('ERROR'),
  });
  await writeFile(bundle, code);
  await bundleCommandLine(lib, 'inline');
  await build({
    entryPoints: [join(ACTORS, 'main.ts')],
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'cjs',
    sourcemap: 'inline',
    logLevel: 'warning',
    outfile: join(directory, 'actor.js'),
  });
  return { directory, built: { actor: join(directory, 'actor.js'), bundle, commandLine: join(lib, 'cli', 'main.js') } };
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
