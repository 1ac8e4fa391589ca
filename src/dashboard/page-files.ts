import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The page, as the build makes it from `page/`: loaded once, and served from memory. */
export interface PageFiles {
  html: string;
  script: string;
  style: string;
  icon: string;
  /** Of what others have written and the script has in it. */
  licences: string;
}

export const PAGE_FILES = {
  html: 'index.html',
  script: 'page.js',
  style: 'page.css',
  icon: 'icon.svg',
  licences: 'licences.txt',
} as const satisfies Record<keyof PageFiles, string>;

/** Where the build puts them: from `src` and from `lib` alike. */
export const PAGE_DIRECTORY = join(__dirname, '..', '..', 'lib', 'dashboard', 'page');

/** @throws Error that says how to build them, when they are not there */
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
