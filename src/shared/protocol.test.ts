import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as protocol from './protocol';

test('docs/protocol.md has every name of the protocol', () => {
  const page = readFileSync(join(__dirname, '..', '..', 'docs', 'protocol.md'), 'utf8');
  const names = Object.values(protocol).flatMap((it) => (typeof it === 'string' ? it : Object.values(it)));
  const has = (text: string) => page.includes(`\`${text}\``);
  for (const name of names) assert.ok(has(name) || has(JSON.stringify(name)), `${name} is missing`);
});
