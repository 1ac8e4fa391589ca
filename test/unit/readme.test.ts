import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const ROOT = join(__dirname, '..', '..');

test('the README shows the whole program of examples/hello, word for word', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const shown = [...readme.matchAll(/<!-- (examples\/hello\/[a-z]+\.ts) -->\n+```ts\n(.*?)```/gs)];
  for (const [, file = '', code] of shown) assert.equal(code, readFileSync(join(ROOT, file), 'utf8'), file);
  const files = readdirSync(join(ROOT, 'examples', 'hello')).map((name) => `examples/hello/${name}`);
  assert.deepEqual(shown.map(([, file]) => file).sort(), files.sort());
});
