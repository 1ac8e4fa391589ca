import { execFileSync } from 'node:child_process';
import { cp, mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';

export const ROOT = join(__dirname, '..', '..');
/** In the project, so that what is built there finds its dependencies. */
export const BUILDS = join(ROOT, '.test-build');

/** All files that git knows or would take, in a new directory, with the project's dependencies. */
export async function copyProject(copy: string): Promise<void> {
  await copyFiles(copy);
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
}

/** The same, without dependencies. */
export async function copyFiles(copy: string): Promise<void> {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  for (const file of files.trim().split('\n')) {
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await cp(join(ROOT, file), join(copy, file)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error; // deleted, and git does not know yet
    });
  }
}
