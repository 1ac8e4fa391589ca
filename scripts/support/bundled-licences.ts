import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';

/** How packages name the file, as in `LICENSE-MIT.txt`. */
const LICENCE = /^(licen[cs]e|copying)([-.](?!js$).*)?$/i;

/** These declare in their package.json that they are under the MIT licence, and bring no text, nor does their repository. */
const DECLARED_MIT: readonly string[] = ['@bomb.sh/tab'];

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly author?: string;
}

/**
 * The licence texts of all packages of which a bundle has a part: most licences ask that they be handed on.
 *
 * @param root the directory that the bundle's paths start from
 * @throws Error when a package has none
 */
export async function bundledLicences({ inputs }: Metafile, root: string): Promise<string> {
  const packages = Object.keys(inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  const texts = await Promise.all([...new Set(packages)].map((path) => licenceOf(join(root, path), root)));
  return `${texts.sort().join('\n\n\n')}\n`;
}

async function licenceOf(directory: string, root: string): Promise<string> {
  const manifest: Manifest = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8'));
  const files = (await readdir(directory)).filter((file) => LICENCE.test(file)).sort();
  const texts = await Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')));
  if (texts.length === 0) texts.push(await declaredLicence(manifest, root));
  return [`${manifest.name} ${manifest.version}`, ...texts.map((text) => text.trim())].join('\n\n');
}

/** The text of the MIT licence, which this package is under as well, in the name of the author. */
async function declaredLicence({ name, version, license, author }: Manifest, root: string): Promise<string> {
  if (!DECLARED_MIT.includes(name) || license !== 'MIT' || !author) {
    throw new Error(`${name} ${version} has no licence text, so it can't be bundled.`);
  }
  const ours = await readFile(join(root, 'LICENSE'), 'utf8');
  return ours.replace(/^Copyright .*$/m, `Copyright (c) ${author}\n(as its package.json declares)`);
}
