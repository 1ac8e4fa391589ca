import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PLANTED_BUGS } from '../planted-bugs/bugs';

const ROOT = join(__dirname, '..', '..');
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');

// `pnpm planted-bugs` runs what catches them, which takes minutes. Here they are only kept from rotting as the code changes.
for (const { name, file, find, replace, caughtBy } of PLANTED_BUGS) {
  test(`can be planted: ${name}`, () => {
    assert.equal(read(file).split(find).length - 1, 1, `the text to replace stands once in ${file}`);
    assert.notEqual(find, replace);
    assert.ok(read(caughtBy.file).includes(caughtBy.test ?? 'test('), `${caughtBy.file} has the test that catches it`);
  });
}

test('there are at least twenty, and each is another', () => {
  assert.ok(PLANTED_BUGS.length >= 20);
  assert.equal(new Set(PLANTED_BUGS.map(({ name }) => name)).size, PLANTED_BUGS.length);
});
