import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

export const ROOT = join(__dirname, '..', '..');

/** A fenced block of a page. */
export interface Block {
  language: string;
  /** What stands behind the language. */
  info: string;
  code: string;
  /** Its first line in the page, from 1. */
  line: number;
  /** The comment right before it, which says where its code comes from: `examples/recipes/clients.ts#many-items`. */
  source?: string;
}

/** A page of the documentation, as a machine reads it. */
export interface Page {
  /** From the root of the repository. */
  path: string;
  blocks: Block[];
  /** The lines outside blocks; a line of a block is empty here, so that indices are line numbers less one. */
  prose: string[];
}

/** Every page that a reader of this repository may open. */
export function pages(): Page[] {
  const files = [
    ...readdirSync(ROOT).filter(isPage),
    ...filesIn('docs'),
    ...filesIn('bench'),
    ...filesIn('test').filter((path) => !path.includes('node_modules')),
    ...filesIn('examples').filter((path) => !path.includes('node_modules')),
  ];
  return files.map((path) => readPage(path, readFileSync(join(ROOT, path), 'utf8')));
}

function filesIn(directory: string): string[] {
  const entries = readdirSync(join(ROOT, directory), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && isPage(entry.name))
    .map(({ parentPath, path, name }) => relative(ROOT, join(parentPath ?? path, name)))
    .sort();
}

function isPage(name: string): boolean {
  return name.endsWith('.md');
}

export function readPage(path: string, text: string): Page {
  const prose: string[] = [];
  const blocks: Block[] = [];
  let open: (Block & { fence: string }) | undefined;
  for (const [at, line] of text.split('\n').entries()) {
    const [, fence = '', language = '', info = ''] = /^\s*(`{3,})(\w*) ?(.*)$/.exec(line) ?? [];
    prose.push(open || fence ? '' : line);
    if (open && fence.length >= open.fence.length && language === '') {
      const { fence: _fence, ...block } = open;
      blocks.push(block);
      open = undefined;
    } else if (open) open.code += `${line}\n`;
    else if (fence) open = { fence, language, info, code: '', line: at + 2, source: sourceBefore(prose) };
  }
  return { path, blocks, prose };
}

function sourceBefore(prose: readonly string[]): string | undefined {
  const last = prose.filter((line) => line.trim() !== '').at(-1);
  return /^<!-- (\S+\.\w+(?:#[\w-]+)?) -->$/.exec(last ?? '')?.[1];
}

/** The paragraphs, items, headings and rows of a page: what inline code and links may span the lines of. `line`: of the first one. */
function paragraphs({ prose }: Page): { text: string; line: number }[] {
  const found: { text: string; line: number }[] = [];
  for (const [at, line] of prose.entries()) {
    const goesOn = line.trim() !== '' && prose[at - 1]?.trim() && !/^\s*(?:[|#>-]|\*\s|\d+\.\s)/.test(line);
    const last = found.at(-1);
    if (goesOn && last) last.text += `\n${line}`;
    else found.push({ text: line, line: at + 1 });
  }
  return found;
}

/** What the pattern finds in the paragraphs of a page, with the line of each. */
function matches(page: Page, pattern: RegExp): { found: string; line: number }[] {
  return paragraphs(page).flatMap(({ text, line }) =>
    [...text.matchAll(pattern)].map(({ 1: found = '', index = 0 }) => ({
      found,
      line: line + (text.slice(0, index).match(/\n/g)?.length ?? 0),
    })),
  );
}

/** The inline code of a page. */
export function spans(page: Page): { code: string; line: number }[] {
  return matches(page, /`([^`]+)`/g).map(({ found, line }) => ({ code: found.replace(/\n\s*/g, ' '), line }));
}

/** The relative links of a page: a path, an anchor, or both. */
export function links(page: Page): { target: string; line: number }[] {
  // Inline code comes first in the pattern, so that no link is found in it.
  return matches(page, /`[^`]*`|\]\(([^)\s]+)\)/g)
    .map(({ found, line }) => ({ target: found, line }))
    .filter(({ target }) => target !== '' && !/^[a-z]+:/.test(target));
}

/** The anchors that GitHub makes of a page's headings. */
export function anchors({ prose }: Page): Set<string> {
  const found = new Set<string>();
  for (const line of prose) {
    const [, heading] = /^#{1,6} (.+)$/.exec(line) ?? [];
    if (heading === undefined) continue;
    const text = heading.replace(/\]\([^)]*\)/g, '').toLowerCase();
    const slug = text.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
    let anchor = slug;
    for (let nth = 1; found.has(anchor); nth++) anchor = `${slug}-${nth}`;
    found.add(anchor);
  }
  return found;
}

/** The cells of each row of each table, without the rules under the headings. */
export function rows({ prose }: Page): { cells: string[]; line: number }[] {
  return prose.flatMap((text, at) => {
    if (!text.startsWith('|') || /^[|\s:-]+$/.test(text)) return [];
    const cells = text.split(/(?<!\\)\|/).slice(1, -1);
    return [{ cells: cells.map((cell) => cell.trim()), line: at + 1 }];
  });
}

/** A command that a page tells its reader to type: its words, and where it stands. */
export interface Command {
  words: string[];
  at: string;
}

/** Every command of a page: inline code, and the lines of shell blocks. */
export function commands(page: Page): Command[] {
  const typed = page.blocks
    .filter(({ language }) => ['sh', 'bash', 'console'].includes(language))
    .flatMap(({ code, line, language }) =>
      code
        .replace(/\\\n/g, ' ')
        .split('\n')
        .map((text, at) => ({ code: text, line: line + at }))
        .filter(({ code }) => language !== 'console' || code.startsWith('$ '))
        .map(({ code, line }) => ({ code: code.replace(/^\$ /, '').replace(/\s#.*$/, ''), line })),
    );
  return [...spans(page), ...typed].flatMap(({ code, line }) =>
    code
      .replace(/'[^']*'|"[^"]*"/g, 'quoted')
      .split(/\s*(?:&&|\|\||[|;&()])\s*/)
      .map((one) => one.trim().split(/\s+/))
      .map((words) => words.slice(words.findIndex((word) => !/^[A-Z_]+=/.test(word))))
      .filter(([first]) => first !== '')
      .map((words) => ({ words, at: `${page.path}:${line}` })),
  );
}
