import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { before, describe, test } from 'node:test';
import type { Command as Commander } from 'commander';
import { EXIT } from '../../src/cli/exit-codes';
import { makeProgram } from '../../src/cli/program';
import { typescriptOf } from '../support/compile-blocks';
import { anchors, commands, links, type Page, pages, ROOT, readPage, rows, spans } from '../support/pages';

const PAGES = pages();

/** Pages that tell of commands as they were. */
const OF_THE_PAST = new Set(['CHANGELOG.md', 'bench/REPORTS.md']);

function none(problems: string[]): void {
  assert.deepEqual(problems, []);
}

describe('links', () => {
  const byPath = new Map(PAGES.map((page) => [page.path, page]));

  function isBroken(from: Page, target: string): string | undefined {
    const [path = '', anchor] = target.split('#');
    const to = path === '' ? from.path : normalize(join(dirname(from.path), path));
    const isThere = existsSync(join(ROOT, to));
    const page = byPath.get(to);
    if (isThere && (anchor === undefined || !page || anchors(page).has(anchor))) return undefined;
    return anchor === undefined ? to : `${to}#${anchor}`;
  }

  const broken = PAGES.flatMap((page) =>
    links(page).flatMap(({ target, line }) => {
      const to = isBroken(page, target);
      return to === undefined ? [] : [{ to, at: `${page.path}:${line}` }];
    }),
  );

  test('every relative link leads to a file, and to a heading in it', () => {
    none(broken.map(({ to, at }) => `${at}: ${to}`));
  });

  test('every page of docs is at most two links from the README', () => {
    const linkedFrom = (path: string): string[] => {
      const page = byPath.get(path);
      const targets = page ? links(page).map(({ target }) => target.split('#')[0] ?? '') : [];
      return targets.map((target) => normalize(join(dirname(path), target)));
    };
    const near = new Set(linkedFrom('README.md').flatMap((path) => [path, ...linkedFrom(path)]));
    none(PAGES.map(({ path }) => path).filter((path) => path.startsWith('docs/') && !near.has(path)));
  });
});

describe('commands', () => {
  const typed = PAGES.filter(({ path }) => !OF_THE_PAST.has(path)).flatMap(commands);
  let program: Commander;
  before(async () => {
    program = await makeProgram(() => undefined, []);
  });

  /** The words behind `pnpm`, however it is started. */
  function pnpmWords(words: string[]): string[] | undefined {
    const at = words.findIndex((word) => /^pnpm(@\d+)?$/.test(word));
    return at === 0 || (at > 0 && words[0] === 'npx') ? words.slice(at + 1) : undefined;
  }

  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

  test('every script that a page names is in package.json', () => {
    const OF_PNPM = new Set(['add', 'exec', 'install', 'pack']);
    none(
      typed.flatMap(({ words, at }) => {
        const [script] = pnpmWords(words) ?? [];
        if (script === undefined || /^[<…-]/.test(script) || OF_PNPM.has(script) || scripts[script]) return [];
        return [`${at}: pnpm ${script}`];
      }),
    );
  });

  test('pnpm hides no script behind a command of its own, as it did with `pnpm server`', () => {
    const hidden =
      /^(add|approve-builds|audit|bin|cat-file|cat-index|completion|config|create|dedupe|deploy|dlx|doctor|env|exec|fetch|find-hash|get|ignored-builds|import|init|install|licenses|link|list|ls|outdated|pack|patch|patch-commit|patch-remove|prune|publish|rebuild|recursive|remove|root|self-update|server|set|setup|store|unlink|update|why)$/;
    none(Object.keys(scripts).filter((name) => hidden.test(name)));
  });

  test('every text behind `pnpm test` and the like picks a test', () => {
    const files = ['src', 'test'].flatMap((directory) =>
      readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' }).map((file) => join(directory, file)),
    );
    const tests = files.filter((file) => file.endsWith('.test.ts') && !file.includes('node_modules'));
    const isOf: Record<string, (file: string) => boolean> = {
      test: (file) => !file.endsWith('.slow.test.ts'),
      'test:unit': (file) => !file.endsWith('.slow.test.ts'),
      'test:slow': (file) => file.endsWith('.slow.test.ts'),
    };
    none(
      typed.flatMap(({ words, at }) => {
        const [script = '', ...texts] = pnpmWords(words) ?? [];
        const isPicked = isOf[script];
        if (!isPicked) return [];
        return texts
          .filter((text) => /^[\w/.-]+$/.test(text) && !text.startsWith('-'))
          .filter((text) => !tests.some((file) => isPicked(file) && file.includes(text)))
          .map((text) => `${at}: ${script} ${text}`);
      }),
    );
  });

  /** The words behind `temporal-semaphore`, however it is started; or those of a page that leaves the name out. */
  function ownWords(words: string[]): string[] | undefined {
    const at = words.indexOf('temporal-semaphore');
    if (at === 0 || (at === 1 && words[0] === 'npx')) return words.slice(at + 1);
    const isOurs = program.commands.some((command) => command.name() === words[0]);
    return isOurs && words.some((word) => /^--?\w/.test(word)) ? words : undefined;
  }

  /** The flags of a command line, up to the `--` behind which they are somebody else's. */
  function flagsOf(words: string[]): string[] {
    const end = words.indexOf('--');
    return (end < 0 ? words : words.slice(0, end)).flatMap((word) => /^--?[a-z][\w-]*/i.exec(word)?.[0] ?? []);
  }

  const optionsOf = (command: Commander) =>
    new Set(['--help', '--version', ...command.options.flatMap(({ short, long }) => [short ?? '', long ?? ''])]);

  test('every command and option of temporal-semaphore that a page names exists', () => {
    none(
      typed.flatMap(({ words, at }) => {
        const [name = '', ...rest] = ownWords(words) ?? [];
        if (name === '' || /^[<…-]/.test(name)) return [];
        const command = program.commands.find((one) => one.name() === name);
        if (!command) return [`${at}: temporal-semaphore ${name}`];
        const known = optionsOf(command);
        return flagsOf(rest)
          .filter((flag) => !known.has(flag))
          .map((flag) => `${at}: temporal-semaphore ${name} ${flag}`);
      }),
    );
  });

  /** Flags of other programs that pages name: Temporal's server, esbuild. */
  const OF_OTHERS = new Set(['--dynamic-config-value', '--packages']);

  /** The names of the options that scripts of this repository read: keys and texts of their sources. */
  function optionsOfScripts(): Set<string> {
    const sources = ['scripts', 'bench', 'test/reliability'].flatMap((directory) =>
      readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts'))
        .map((file) => readFileSync(join(ROOT, directory, file), 'utf8')),
    );
    const found = sources.flatMap((source) =>
      [...source.matchAll(/(?<=^\s*|[{,]\s*)'?([a-z][\w-]*)'?: \{|(?:'(?:-\w, )?--|argument\(')([a-z][\w-]*)\b/gm)].map(
        ([, key, text]) => key ?? text,
      ),
    );
    return new Set(found.map((name) => `--${name}`));
  }

  test('every flag that stands alone in a page is an option of a command or of a script', () => {
    const known = new Set([
      ...program.commands.flatMap((command) => [...optionsOf(command)]),
      ...optionsOfScripts(),
      ...OF_OTHERS,
    ]);
    none(
      PAGES.filter(({ path }) => !OF_THE_PAST.has(path)).flatMap((page) =>
        spans(page)
          .filter(({ code }) => code.startsWith('--') && !code.startsWith('-- ') && code !== '--')
          .flatMap(({ code, line }) => flagsOf(code.split(/\s/)).map((flag) => ({ flag, line })))
          .filter(({ flag }) => !known.has(flag))
          .map(({ flag, line }) => `${page.path}:${line}: ${flag}`),
      ),
    );
  });

  test('every script in a table of scripts is in package.json', () => {
    const named = PAGES.flatMap((page) => {
      let ofScripts = false;
      return rows(page).flatMap(({ cells: [first = ''], line }) => {
        if (page.prose[line - 2]?.trim() === '') ofScripts = first === 'script';
        if (!ofScripts) return [];
        return [...first.matchAll(/`([a-z][\w:-]*)[^`]*`/g)].map(([, script = '']) => ({
          script,
          at: `${page.path}:${line}`,
        }));
      });
    });
    assert.ok(named.length > 10);
    none(named.filter(({ script }) => !scripts[script]).map(({ script, at }) => `${at}: ${script}`));
  });
});

describe('exit codes', () => {
  const OURS = new Set<number>([0, ...Object.values(EXIT)]);
  /** As shells say it: 128 and the number of the signal. */
  const isKnown = (code: number) => OURS.has(code) || (code > 128 && code < 192);

  test('every exit code that a page names is one of ours', () => {
    none(
      PAGES.flatMap((page) => {
        const inText = page.prose.flatMap((text, at) =>
          [...text.matchAll(/\bexit(?:s with| code is(?: then)?| code|s)? (\d+)\b/gi)].map(([, code]) => ({
            code: Number(code),
            line: at + 1,
          })),
        );
        let column = -1;
        const inTables = rows(page).flatMap(({ cells, line }) => {
          if (cells.includes('exit code')) column = cells.indexOf('exit code');
          else if (page.prose[line - 2]?.trim() === '') column = -1;
          return (cells[column]?.match(/^\d+/g) ?? []).map((code) => ({ code: Number(code), line }));
        });
        return [...inText, ...inTables]
          .filter(({ code }) => !isKnown(code) && code !== 128)
          .map(({ code, line }) => `${page.path}:${line}: ${code}`);
      }),
    );
  });

  test('docs/cli.md has each of them', () => {
    const cli = PAGES.find(({ path }) => path === 'docs/cli.md');
    assert.ok(cli);
    const named = new Set(
      rows(cli)
        .flatMap(({ cells: [first = ''] }) => first.match(/\b\d+\b/g) ?? [])
        .map(Number),
    );
    none([...OURS].filter((code) => !named.has(code)).map(String));
  });
});

test('each number in docs/performance.md names the command that measured it', () => {
  const page = PAGES.find(({ path }) => path === 'docs/performance.md');
  assert.ok(page);
  const paragraphs = page.prose
    .join('\n')
    .replace(/\n(?=[|*-] |\|)/g, '\n\n') // each row and each item stands by itself
    .split(/\n\s*\n/);
  const bare = (text: string) => text.replace(/\]\([^)]*\)/g, '').replace(/`[^`]*`/g, '');
  none(paragraphs.filter((text) => /\d/.test(bare(text)) && !/`[^`]*\bpnpm [a-z]/.test(text)));
});

describe('code', () => {
  /** The code that a comment before a block names: a file, or a region of one. */
  function sourceOf(source: string): string | undefined {
    const [path = '', region] = source.split('#');
    if (!existsSync(join(ROOT, path))) return undefined;
    const text = readFileSync(join(ROOT, path), 'utf8');
    if (region === undefined) return text;
    return new RegExp(`// #region ${region}\\n(.*?\\n)// #endregion`, 's').exec(text)?.[1];
  }

  test('a block that names its source shows it word for word', () => {
    // The compiler of the whole project reads that source.
    none(
      typescriptOf(PAGES)
        .filter(({ source, code }) => source !== undefined && sourceOf(source)?.trim() !== code.trim())
        .map(({ at, source }) => `${at}: ${source}`),
    );
  });
});

describe('the checks themselves', () => {
  const page = (text: string) => readPage('docs/made-up.md', text);

  test('a heading has the anchor that GitHub gives it', () => {
    const made = page('# Limits: `a`, and *b*\n\n## What is not promised\n\n## What is not promised\n');
    assert.deepEqual([...anchors(made)], ['limits-a-and-b', 'what-is-not-promised', 'what-is-not-promised-1']);
  });

  test('inline code and links are found across the lines of a paragraph, and no link in code', () => {
    const made = page('Type `pnpm\n  test pace`, see [the\npage](a.md), not `[x](b.md)`.\n- an `item\n\nof` another\n');
    assert.deepEqual(spans(made), [
      { code: 'pnpm test pace', line: 1 },
      { code: '[x](b.md)', line: 3 },
    ]);
    assert.deepEqual(links(made), [{ target: 'a.md', line: 3 }]);
  });

  test('a command is found in inline code and in a shell, behind variables and before a comment', () => {
    const made = page('Type `pnpm test pace`.\n\n```sh\nA=b npx -y pnpm@10 cluster --port 1   # it runs\n```\n');
    assert.deepEqual(
      commands(made).map(({ words, at }) => [at, ...words]),
      [
        ['docs/made-up.md:1', 'pnpm', 'test', 'pace'],
        ['docs/made-up.md:4', 'npx', '-y', 'pnpm@10', 'cluster', '--port', '1'],
      ],
    );
  });
});
