import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { bundledLicences } from './bundled-licences';

const ROOT = join(__dirname, '..', '..');
const READER = 'limits-file.js';

/**
 * Puts the YAML library into the compiled reader of limits files, which a permit worker loads, so that a user of the library installs no
 * package for it.
 *
 * @param lib the directory of the built package
 */
export async function bundleLimitsReader(lib: string): Promise<void> {
  const reader = join(lib, 'limits', READER);
  const { metafile } = await build({
    entryPoints: [reader],
    outfile: reader,
    allowOverwrite: true,
    bundle: true,
    plugins: [
      {
        name: 'ours',
        setup: ({ onResolve }) => onResolve({ filter: /^\.\.?\/(shared\/|limit$)/ }, () => ({ external: true })),
      },
    ],
    minifySyntax: true,
    minifyWhitespace: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    banner: { js: '/* The licences of what is bundled: licences.txt */' },
    legalComments: 'none',
    metafile: true,
    absWorkingDir: ROOT,
    logLevel: 'warning',
  });
  await rm(`${reader}.map`);
  await writeFile(join(lib, 'limits', 'licences.txt'), await bundledLicences(metafile, ROOT));
}
