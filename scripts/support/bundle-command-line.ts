import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type BuildOptions, build, type PluginBuild } from 'esbuild';
import { peerDependencies } from '../../package.json';
import { bundledLicences } from './bundled-licences';

const ROOT = join(__dirname, '..', '..');
const SOURCE = join(ROOT, 'src', 'cli');
const LICENCES = 'licences.txt';

/**
 * The user's SDK. Not `@temporalio/envconfig`, nor the few modules in the `lib` of `@temporalio/common` that it takes: it needs its own version of
 * these, and npm would install all of `@temporalio/common` a second time beside any other SDK.
 */
const PEER = new RegExp(`^(${Object.keys(peerDependencies).join('|')})(/package\\.json)?$`);

function leavePeersOutside({ onResolve }: PluginBuild): void {
  onResolve({ filter: PEER }, () => ({ external: true }));
}

/**
 * Bundles the command line with all that it needs but the SDK and Node, so that a user of the library installs no packages
 * for it. What it finds by a path relative to its own file (the guard's process, the Workflows, the page, package.json) lies
 * there as seen from \`src/cli\` and from \`lib/cli\` alike.
 *
 * @param lib the directory of the built package
 */
export async function bundleCommandLine(lib: string, sourcemap: BuildOptions['sourcemap'] = false): Promise<void> {
  const { metafile } = await build({
    entryPoints: [join(SOURCE, 'main.ts'), join(SOURCE, 'guard-process.ts')],
    bundle: true,
    plugins: [{ name: 'peers', setup: leavePeersOutside }],
    // Half the size. Names stay, so that a stack trace can be read.
    minifySyntax: true,
    minifyWhitespace: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    banner: { js: `/* The licences of what is bundled: ${LICENCES} */` },
    // The package checker tells a file's kind of module by its text, in which an advice to users has an `export`.
    footer: { js: 'module.exports = {};' },
    legalComments: 'none',
    metafile: true,
    sourcemap,
    absWorkingDir: ROOT,
    // What \`require.resolve\` names is no part of the bundle: it lies beside it.
    logOverride: { 'require-resolve-not-external': 'silent' },
    logLevel: 'warning',
    outdir: join(lib, 'cli'),
  });
  await writeFile(join(lib, 'cli', LICENCES), await bundledLicences(metafile, ROOT));
}
