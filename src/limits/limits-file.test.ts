import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import Ajv from 'ajv';
import { parse } from 'yaml';
import { InvalidOptionsError } from '../shared/check';
import { type Limit, poolOf } from './limit';
import { readLimitsFile } from './limits-file';
import { LIMITS_SCHEMA } from './limits-schema';

const isValid = new Ajv({ allErrors: true }).compile(LIMITS_SCHEMA);

const SOUND = `# yaml-language-server: $schema=node_modules/temporal-semaphore/lib/limits.schema.json
version: 7
resources:
  gpu-pool:
    capacity: 5
    declared: 3
    owner: ml-platform
    note: two more GPUs until January
  licences: &two
    slots: [eu-1, eu-2]
    declared: [eu-1, eu-2, eu-3]
  openai:
    capacity: 20
    perKey:
      declared: 2
      keys:
        acme: 5
        "42": { capacity: 1, owner: sales, note: asked to slow down }
        ünlü: { paused: { reason: unpaid } }
  vendor-api:
    paused: { reason: migration }
  calm: { paused: false }
  more-licences: *two
`;

const NAMED = { slots: ['eu-1', 'eu-2'], declared: ['eu-1', 'eu-2', 'eu-3'] };
const EXPECTED: Limit[] = [
  { resource: 'gpu-pool', capacity: 5, declared: 3, owner: 'ml-platform', note: 'two more GPUs until January' },
  { resource: 'licences', ...NAMED },
  { resource: 'openai', capacity: 20 },
  { resource: 'openai', key: 'acme', capacity: 5, declared: 2 },
  { resource: 'openai', key: '42', capacity: 1, owner: 'sales', note: 'asked to slow down', declared: 2 },
  { resource: 'openai', key: 'ünlü', paused: { reason: 'unpaid' }, declared: 2 },
  { resource: 'vendor-api', paused: { reason: 'migration' } },
  { resource: 'calm', paused: false },
  { resource: 'more-licences', ...NAMED },
];

test('a file is read into a limit for each resource and each key', () => {
  assert.deepEqual(readLimitsFile(SOUND, 'limits.yaml'), { version: 7, limits: EXPECTED });
});

test('JSON is such a file too, and so is one with a byte order mark and other line ends', () => {
  const read = readLimitsFile(JSON.stringify(parse(SOUND)), 'limits.json').limits;
  const sorted = (limits: readonly Limit[]) => [...limits].sort((a, b) => (poolOf(a) < poolOf(b) ? -1 : 1));
  assert.deepEqual(sorted(read), sorted(EXPECTED)); // JavaScript moves keys such as "42" to the front
  assert.deepEqual(readLimitsFile(`\ufeff${SOUND.replaceAll('\n', '\r\n')}`, 'limits.yaml').limits, EXPECTED);
});

test('the file in the docs is sound', () => {
  const page = readFileSync(join(__dirname, '..', '..', 'docs', 'limits-as-code.md'), 'utf8');
  const [, file = ''] = /^```yaml\n(.*?)^```/ms.exec(page) ?? [];
  assert.equal(readLimitsFile(file, 'limits.yaml').limits.length, 6);
  assert.ok(isValid(parse(file)), JSON.stringify(isValid.errors));
});

test('the schema takes what the reader takes', () => {
  assert.ok(isValid(parse(SOUND)), JSON.stringify(isValid.errors));
});

/** A file with one resource of these lines, the first of which is line 4. */
const of = (...lines: string[]) => `version: 1\nresources:\n  gpus:\n${lines.map((line) => `    ${line}\n`).join('')}`;
const named = (name: string) => `version: 1\nresources:\n  ${name}:\n    capacity: 1\n`;
const keys = (...lines: string[]) => of('perKey:', ...lines.map((line) => `  ${line}`));

/** Millions of values in one line. */
const BOMBS = [...'bcdefgh'].reduce(
  (before, name, at) => `${before}, &${name} [${`*${'abcdefg'[at]}, `.repeat(9)}]`,
  '&a x',
);

/** What is wrong, the file, where, and the words. `schema`: what an editor can't see by the schema is marked. */
const MALFORMED: [what: string, file: string, at: string, expected: RegExp, unseen?: 'unseen by the schema'][] = [
  ['an empty file', '', '1:1', /got an empty file/],
  ['comments alone', '# later\n', '1:1', /got an empty file|expected a mapping/],
  ['a list', '- a\n', '1:1', /expected a mapping of version, resources/],
  ['a text', 'limits\n', '1:1', /expected a mapping of version, resources, got "limits"/],
  ['no version', 'resources:\n  gpus:\n    capacity: 1\n', '1:1', /expected "version"/],
  ['no resources', 'version: 1\n', '1:1', /expected "resources"/],
  [
    'resources without any',
    'version: 1\nresources:\n',
    '2:11',
    /expected a mapping with an entry for a resource, got null/,
  ],
  ['resources that are none', 'version: 1\nresources: {}\n', '2:12', /expected an entry for a resource, got none/],
  [
    'a version of 0',
    'version: 0\nresources: { a: { capacity: 1 } }\n',
    '1:10',
    /version: expected a whole number from 1, got 0/,
  ],
  ['a version in quotes', 'version: "1"\nresources: { a: { capacity: 1 } }\n', '1:10', /version: .* got "1"/],
  [
    'a misspelled field of the file',
    'version: 1\nresource: {}\nresources: { a: { capacity: 1 } }\n',
    '2:1',
    /Did you mean "resources"\?/,
  ],
  ['a misspelled field', of('capcity: 3'), '4:5', /Unknown option "capcity"\. Did you mean "capacity"\?/],
  ['an unknown field', of('capacity: 3', 'colour: red'), '5:5', /Unknown option "colour"\. Known: capacity, /],
  ['a field twice', of('capacity: 3', 'capacity: 4'), '5:5', /must be unique/, 'unseen by the schema'],
  ['a resource twice', `${named('gpus')}  gpus:\n    capacity: 2\n`, '5:3', /must be unique/, 'unseen by the schema'],
  [
    'a resource without limits',
    'version: 1\nresources:\n  gpus:\n',
    '3:8',
    /expected a mapping of capacity, .* got null/,
  ],
  ['a resource with an owner alone', of('owner: me'), '3:3', /gpus: expected a limit, such as capacity: 5, or paused/],
  ['a resource that is a number', 'version: 1\nresources:\n  gpus: 5\n', '3:9', /gpus: expected a mapping of .* got 5/],
  ['a capacity of 0', of('capacity: 0'), '4:15', /capacity: expected a whole number from 1 to 1000, got 0/],
  ['a capacity of 1001', of('capacity: 1001'), '4:15', /capacity: .* got 1001/],
  ['a capacity of 2.5', of('capacity: 2.5'), '4:15', /capacity: .* got 2\.5/],
  ['a capacity in quotes', of('capacity: "3"'), '4:15', /capacity: .* got "3"/],
  ['a capacity of nothing', of('capacity:'), '4:14', /capacity: .* got null/],
  ['an infinite capacity', of('capacity: .inf'), '4:15', /capacity: .* got Infinity/],
  ['capacity and slots', of('capacity: 1', 'slots: [a]'), '3:3', /exactly one of "capacity" and "slots"/],
  ['no slots', of('slots: []'), '4:12', /slots: expected an array of 1 to 1000 slot names/],
  ['slots that are a text', of('slots: a,b'), '4:12', /slots: expected an array of 1 to 1000 slot names, got "a,b"/],
  [
    'the same slot twice',
    of('slots: [a, b, a]'),
    '4:12',
    /slots: expected distinct slot names/,
    'unseen by the schema',
  ],
  ['a slot that is a number', of('slots: [1, 2]'), '4:12', /slot name: expected a non-empty string, got 1/],
  [
    'a slot with a colon',
    of('slots: ["a:b"]'),
    '4:12',
    /slot name: expected a name without ":"/,
    'unseen by the schema',
  ],
  [
    'slots that callers do not declare',
    of('slots: [c]', 'declared: [a, b]'),
    '3:3',
    /slots: expected the first of those/,
    'unseen by the schema',
  ],
  [
    'named slots that grow',
    of('capacity: 3', 'declared: [a, b]'),
    '3:3',
    /capacity: expected at most 2 \(named slots can't grow\)/,
    'unseen by the schema',
  ],
  [
    'declared slots that are none',
    of('capacity: 3', 'declared: all'),
    '5:15',
    /declared: expected a whole number from 1 to 1000, got "all"/,
  ],
  [
    'paused: true',
    of('paused: true'),
    '4:13',
    /paused: expected false, or a mapping such as \{ reason: maintenance \}, got true/,
  ],
  ['paused: no, which is a text', of('paused: no'), '4:13', /paused: expected false, .* got "no"/],
  ['a pause without a reason', of('paused: {}'), '4:13', /paused: expected .*reason/],
  ['a pause of an empty reason', of('paused: { reason: "" }'), '4:23', /paused\.reason: expected a non-empty string/],
  ['a pause with an end', of('paused: { reason: x, until: 18:00 }'), '4:26', /Unknown option "until"/],
  [
    'a note that is a number',
    of('capacity: 1', 'note: 5'),
    '5:11',
    /note: expected a string of at most \d+ characters, got 5/,
  ],
  [
    'a note that is too long',
    of('capacity: 1', `note: ${'x'.repeat(1_000)}`),
    '5:11',
    /note: expected a string of at most 9\d\d characters/,
  ],
  [
    'a name that is a number',
    named('42'),
    '3:3',
    /expected names that are texts \(put it in quotes\), got 42/,
    'unseen by the schema',
  ],
  [
    'a name with a line end',
    named('"a\\nb"'),
    '3:3',
    /resource: expected printable characters only/,
    'unseen by the schema',
  ],
  [
    'a name that is too long',
    named('x'.repeat(205)),
    '3:3',
    /resource: expected at most 204 bytes of UTF-8/,
    'unseen by the schema',
  ],
  ['an empty name', named('""'), '3:3', /resource: expected a non-empty string/, 'unseen by the schema'],
  [
    "the name of a key's permits",
    named('openai~key:acme'),
    '3:3',
    /which names the resource of a key: give "perKey"/,
    'unseen by the schema',
  ],
  ['perKey that is a number', of('perKey: 2'), '4:13', /perKey: expected a mapping of declared, default, keys, got 2/],
  ['perKey without keys', of('perKey: { declared: 2 }'), '4:13', /perKey: expected "keys"/],
  [
    'a default of no permits',
    keys('default: 0', 'keys: { acme: 5 }'),
    '5:16',
    /perKey\.default: expected a whole number from 1 to 1000, got 0/,
  ],
  ['no keys', keys('keys: {}'), '5:13', /perKey\.keys: expected an entry for a key, got none/],
  [
    'a key that is a number',
    keys('keys:', '  42: 5'),
    '6:9',
    /expected names that are texts \(put it in quotes\), got 42/,
    'unseen by the schema',
  ],
  ['a key of no permits', keys('keys: { acme: 0 }'), '5:21', /acme: expected a whole number from 1 to 1000, got 0/],
  [
    'a key that is not NFC',
    keys('keys: { "u\\u0308": 1 }'),
    '5:15',
    /key: expected a text in Unicode's form NFC/,
    'unseen by the schema',
  ],
  ['a key of named slots', keys('keys: { acme: { slots: [a] } }'), '5:23', /Unknown option "slots"/],
  ['a key without a limit', keys('keys: { acme: { owner: me } }'), '5:15', /acme: expected a limit/],
  [
    'a resource whose name has no room for keys',
    named('x'.repeat(140)).replace('capacity: 1', 'perKey: { keys: { a: 1 } }'),
    '4:13',
    /resource: expected at most \d+ bytes of UTF-8, because it has keys/,
    'unseen by the schema',
  ],
  ['a tab', 'version: 1\nresources:\n\tgpus: { capacity: 1 }\n', '3:1', /[Tt]ab/, 'unseen by the schema'],
  ['a bracket that is not closed', of('slots: [a, b'), '5:1', /\]|flow/i, 'unseen by the schema'],
  ['an unknown alias', of('capacity: *five'), '4:15', /[Uu]nresolved alias/, 'unseen by the schema'],
  ['an unknown tag', of('capacity: !many 5'), '4:15', /[Uu]nresolved tag/, 'unseen by the schema'],
  [
    'two documents',
    `${named('a')}---\n${named('b')}`,
    '5:1',
    /expected one document, got a second/,
    'unseen by the schema',
  ],
  ['a merge', of('<<: { capacity: 1 }'), '4:5', /Unknown option "<<"/],
  ['aliases of aliases of aliases', of(`slots: [${BOMBS}]`), '4:12', /alias/, 'unseen by the schema'],
];

describe('a malformed file is refused with line and column', () => {
  for (const [what, file, at, expected, unseen] of MALFORMED) {
    test(what, () => {
      assert.throws(
        () => readLimitsFile(file, 'limits.yaml'),
        (error: unknown) => {
          assert.ok(error instanceof InvalidOptionsError);
          const [head, ...mistakes] = error.message.split('\n');
          assert.match(head ?? '', /^The limits file has (a mistake|\d+ mistakes):$/);
          const found = mistakes.find((line) => line.startsWith(`limits.yaml:${at}: `));
          assert.match(found ?? assert.fail(error.message), expected);
          return true;
        },
      );
      if (unseen === undefined) assert.ok(!isValid(parse(file)), 'an editor shows it by the schema');
    });
  }
});

test('all mistakes of a file are told at once, in their order', () => {
  const file = of('capacity: 0', 'colour: red', 'perKey: { keys: { acme: no } }').replace('version: 1', 'version: -1');
  assert.throws(
    () => readLimitsFile(file, 'l.yaml'),
    (error: Error) => {
      const at = error.message.split('\n').map((line) => /^l\.yaml:\d+:\d+/.exec(line)?.[0] ?? line);
      assert.deepEqual(at, [
        'The limits file has 4 mistakes:',
        'l.yaml:1:10',
        'l.yaml:4:15',
        'l.yaml:5:5',
        'l.yaml:6:29',
      ]);
      return true;
    },
  );
});
