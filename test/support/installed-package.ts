import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { devDependencies } from '../../package.json';
import { packedPackage } from '../../scripts/support/pack-package';

const run = promisify(execFile);

/**
 * Installs this package from its tarball into an empty folder, as a user does, and others beside it.
 * @param beside in the versions of this repository
 * @param more with their versions
 */
export async function installPackage(
  project: string,
  beside: readonly (keyof typeof devDependencies)[],
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  const dependencies = {
    ...Object.fromEntries(beside.map((name) => [name, devDependencies[name]])),
    ...more,
    'temporal-semaphore': `file:${await packedPackage(project)}`,
  };
  await writeFile(join(project, 'package.json'), JSON.stringify({ private: true, dependencies }));
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: project });
}
