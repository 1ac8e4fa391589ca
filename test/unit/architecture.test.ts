import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const ROOT = join(__dirname, '..', '..');

/** Modules of `src` without tests, as `folder/name`. */
function modules(): string[] {
  return readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file) && !/\.(test|d)\.ts$/.test(file))
    .map((file) => file.replaceAll('\\', '/').replace(/\.tsx?$/, ''))
    .sort();
}

/** The modules that the page names: in the first cells of the tables below the heading of a folder. */
function named(): string[] {
  const page = readFileSync(join(ROOT, 'docs', 'architecture.md'), 'utf8');
  let folder: string | undefined;
  const names: string[] = [];
  for (const line of page.split('\n')) {
    if (line.startsWith('## ')) folder = undefined;
    const [, heading] = line.match(/^### `([^`]+)`/) ?? [];
    if (heading !== undefined) folder = heading === 'src' ? '' : `${heading}/`;
    const [, cell] = line.match(/^\| (`[^|]+) \|/) ?? [];
    if (folder === undefined || cell === undefined) continue;
    for (const [, name] of cell.matchAll(/`([^`]+)`/g)) names.push(folder + name);
  }
  return names.sort();
}

test('docs/architecture.md names every module once, and none that is not there', () => {
  const [there, page] = [modules(), named()];
  assert.deepEqual(
    {
      missing: there.filter((name) => !page.includes(name)),
      unknown: page.filter((name) => !there.includes(name)),
      twice: page.filter((name, n) => page.indexOf(name) < n),
    },
    { missing: [], unknown: [], twice: [] },
  );
});

test('the core is under 1,000 lines', () => {
  const page = readFileSync(join(ROOT, 'docs', 'architecture.md'), 'utf8');
  const order = page.slice(page.indexOf('## Read in this order'), page.indexOf('## Every module'));
  const core = [...order.matchAll(/^\| `([^`]+)`/gm)].map(([, file]) => file ?? '');
  assert.equal(core.length, 6);
  const lines = core.map(
    (file) =>
      readFileSync(join(ROOT, 'src', `${file}.ts`), 'utf8')
        .trimEnd()
        .split('\n').length,
  );
  assert.ok(lines.reduce((sum, it) => sum + it) < 1_000, `${lines}`);
});
