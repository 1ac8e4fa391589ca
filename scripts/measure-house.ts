import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { houseOf } from './support/house';
import { runMain } from './support/main';

const run = promisify(execFile);

const ROOT = join(__dirname, '..');

/**
 * `pnpm measure:house [--json] [revision…]`: the size and shape of the library. Without a revision it measures the working tree, with
 * one it puts that beside the working tree, and with more it puts them side by side. Nothing sets a limit to these figures.
 */
runMain(async () => {
  const { positionals: revisions, values } = parseArgs({
    allowPositionals: true,
    options: { json: { type: 'boolean' } },
  });
  const houses = [];
  for (const revision of revisions) houses.push({ of: revision, ...(await measureRevision(revision)) });
  if (revisions.length < 2) houses.push({ of: 'working tree', ...houseOf(ROOT) });
  if (values.json) console.log(JSON.stringify(houses, undefined, 2));
  else console.log(tableOf(houses).join('\n'));
  return 0;
});

/** Takes the packages that are installed here, so it needs no network. */
async function measureRevision(revision: string): Promise<ReturnType<typeof houseOf>> {
  const directory = await mkdtemp(join(tmpdir(), 'temporal-semaphore-house-'));
  try {
    const archive = join(directory, 'house.tar');
    const paths = ['src', 'package.json', 'tsconfig.json'];
    await run('git', ['archive', '--output', archive, '--end-of-options', revision, ...paths], { cwd: ROOT });
    await run('tar', ['-xf', archive, '-C', directory]);
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
    return houseOf(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function tableOf(houses: readonly ({ of: string } & ReturnType<typeof houseOf>)[]): string[] {
  const row = (what: string, cell: (house: (typeof houses)[number]) => string) => [what, ...houses.map(cell)];
  const rows = [
    row('library', ({ of }) => of),
    row('files', ({ files }) => text(files)),
    row('code lines', ({ codeLines }) => text(codeLines)),
    row('median file', ({ medianFile }) => text(medianFile)),
    row('files under 30 lines', ({ shareUnder30 }) => `${Math.round(100 * shareUnder30)} %`),
    row('largest file', ({ largest }) => `${text(largest.codeLines)} (${largest.file})`),
    row('relative imports / 1,000 lines', ({ importsPer1000 }) => text(Math.round(importsPer1000))),
    row('exported values', ({ exported }) => text(exported.values)),
    row('exported types', ({ exported }) => text(exported.types)),
  ];
  const widths = [0, ...houses.keys()].map((_, column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  const [head = [], ...body] = rows.map(line);
  return [String(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...body];
}

function text(count: number): string {
  return count.toLocaleString('en');
}
