import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readPage } from '../support/pages';

const ROOT = join(__dirname, '..', '..');
const PROGRAM = join(ROOT, 'examples', 'hello');
const readme = readPage('README.md', readFileSync(join(ROOT, 'README.md'), 'utf8'));

test('the quick start of the README starts files of the program that it links, which are as many as it says', () => {
  const at = readme.prose.indexOf('## Quick start');
  const text = readme.prose.slice(at, readme.prose.indexOf('## Outside Workflows')).join('\n');
  assert.match(text, /\[examples\/hello\]\(examples\/hello\) is a whole program in four short files/);
  const files = readdirSync(PROGRAM);
  assert.equal(files.length, 4);
  const started = readme.blocks.flatMap(({ code }) => [...code.matchAll(/^npx tsx (\S+)/gm)].map(([, file]) => file));
  assert.deepEqual(started, ['worker.ts', 'starter.ts']);
  assert.deepEqual(
    started.filter((file) => !files.includes(file ?? '')),
    [],
  );
});

test("the first code of the README is the program's Workflow, but for the activity that it calls", () => {
  const [first] = readme.blocks;
  const source = readFileSync(join(PROGRAM, 'workflows.ts'), 'utf8');
  const lines = (first?.code ?? '').split('\n').filter((line) => line.trim() !== '' && !line.includes('withPermit'));
  assert.ok(lines.length >= 4);
  assert.deepEqual(
    lines.filter((line) => !source.includes(line)),
    [],
  );
});
