import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { PACKED_PACKAGE } from './prepared';
import { ROOT } from './project-copy';

/** Builds the package and packs it, as for publishing (`prepack`). @returns the path of the tarball */
export async function packPackage(directory: string): Promise<string> {
  const args = ['pack', '--silent', '--pack-destination', directory];
  const { stdout } = await promisify(execFile)('npm', args, { cwd: ROOT });
  return join(directory, stdout.trim().split('\n').at(-1) ?? '');
}

/** The tarball that {@link PACKED_PACKAGE} names, or a new one. @returns its absolute path */
export async function packedPackage(directory: string): Promise<string> {
  const named = process.env[PACKED_PACKAGE];
  return named ? resolve(ROOT, named) : await packPackage(directory);
}
