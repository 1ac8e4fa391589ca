import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The page that the build makes from `page/`. The server loads it once, and serves it from memory. */
export interface PageFiles {
  html: string;
  script: string;
  style: string;
  icon: string;
  /** The licences of the packages that the script includes. */
  licences: string;
}

export const PAGE_FILES = {
  html: 'index.html',
  script: 'page.js',
  style: 'page.css',
  icon: 'icon.svg',
  licences: 'licences.txt',
} as const satisfies Record<keyof PageFiles, string>;

/** The directory of the built page, seen from `src` and from `lib` alike. */
export const PAGE_DIRECTORY = join(__dirname, '..', '..', 'lib', 'dashboard', 'page');

/** @throws Error that says how to build the page, when it is missing */
export async function readPageFiles(): Promise<PageFiles> {
  const read = (name: string) => readFile(join(PAGE_DIRECTORY, name), 'utf8');
  try {
    const names = Object.keys(PAGE_FILES) as (keyof PageFiles)[];
    const files = await Promise.all(names.map(async (name) => [name, await read(PAGE_FILES[name])] as const));
    return Object.fromEntries(files) as Record<keyof PageFiles, string>;
  } catch (error) {
    throw new Error('The page of the dashboard has not been built: npx -y pnpm@10 build', { cause: error });
  }
}
