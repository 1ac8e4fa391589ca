import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { printJson } from './terminal';
import { dim, Text, table, text } from './text';

const HOSTILE = 'a\x1b[31m\x07\x9b\u202e\u2028\nb';
const ESCAPED = 'a\\u{1b}[31m\\u{7}\\u{9b}\\u{202e}\\u{2028}\\u{a}b';

/** Values that a payload may have, of whatever type was expected, and how a terminal shows each. */
const ANY: [unknown, string][] = [
  [HOSTILE, ESCAPED],
  [5, '5'],
  [null, ''],
  [undefined, ''],
  [true, 'true'],
  [{ toString: 1, valueOf: 1 }, '{"toString":1,"valueOf":1}'],
  [{ content: 'x', colSpan: 1e6 }, '{"content":"x","colSpan":1000000}'],
  [['\u202e'], '["\\u{202e}"]'],
];

test('whatever comes from elsewhere is escaped, once, in a template, in a table and in colour', () => {
  for (const [value, shown] of ANY) {
    assert.equal(String(text`<${value}>`), `<${shown}>`);
    assert.equal(String(text`<${text`(${value})`}>`), `<(${shown})>`);
    assert.equal(stripVTControlCharacters(String(dim(value))), shown);
    assert.equal(String(table(['h'], [[value]], ['left'])).split('\n')[1], shown.trimEnd());
    assert.equal(String(Text.lines([value, 'x'])), `${shown}\nx`);
  }
});

test('in a table that is too wide, the widest column is cut in its middle, but not the last, nor a text of ours', () => {
  const long = `${'a'.repeat(30)}${'b'.repeat(30)}`;
  const drawn = (name: unknown, width?: number) =>
    stripVTControlCharacters(
      String(table(['name', 'n', 'last'], [[name, 5, long]], ['left', 'left', 'left'], width)).split('\n')[1] ?? '',
    );
  assert.equal(drawn(long, 40), `${'a'.repeat(15)}…${'b'.repeat(15)}  5  ${long}`);
  assert.equal(drawn(long, 10), `${'a'.repeat(10)}…${'b'.repeat(9)}  5  ${long}`, 'not shorter than 20');
  assert.equal(drawn(long, 69), `${long}  5  ${long}`);
  assert.equal(drawn(dim(long), 40), `${long}  5  ${long}`);
  assert.equal(drawn(long), `${long}  5  ${long}`, 'no terminal');
});

test('a text that was made a string on the way is escaped, not trusted', () => {
  const ours = Text.ours('\x1b[31mred\x1b[39m');
  assert.equal(String(text`${ours}`), '\x1b[31mred\x1b[39m');
  assert.equal(String(text`${`${ours}`}`), '\\u{1b}[31mred\\u{1b}[39m');
});

test('JSON keeps the value, and shows no control character', (t) => {
  const written: string[] = [];
  t.mock.method(process.stdout, 'write', (chunk: string) => written.push(chunk) > 0);
  printJson([{ value: HOSTILE }, 2], 'jsonl');
  printJson({ value: HOSTILE }, 'json');
  t.mock.restoreAll();
  assert.deepEqual(
    written.slice(0, 2).map((line) => JSON.parse(line)),
    [{ value: HOSTILE }, 2],
  );
  for (const line of written) assert.doesNotMatch(line, /[^\n\P{C}]|[\p{Zl}\p{Zp}]/u);
});
