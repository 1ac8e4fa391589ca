import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { PLANTED_BUGS } from './bugs';
import { CHAOS_BUGS } from './chaos-bugs';
import { declarationsOf, isSource, isTest, plant, readFiles, testOf } from './plant';

const ROOT = join(__dirname, '..', '..', '..');
const declarations = declarationsOf(readFiles(ROOT, ['src'], isSource));
const tests = readFiles(ROOT, ['src', 'test'], isTest);

// `pnpm planted-bugs` runs what catches them, which takes minutes. Here they are only kept from rotting as the code changes.
for (const bug of PLANTED_BUGS) {
  test(`can be planted: ${bug.name}`, () => {
    plant(declarations, bug);
    testOf(tests, bug.caughtBy);
  });
}

for (const bug of CHAOS_BUGS) {
  test(`can be planted for chaos: ${bug.name}`, () => void plant(declarations, bug));
}

test('there are at least twenty, and each is another', () => {
  assert.ok(PLANTED_BUGS.length >= 20);
  assert.equal(new Set(PLANTED_BUGS.map(({ name }) => name)).size, PLANTED_BUGS.length);
});

const SOURCES = new Map([
  [
    'src/client/lease.ts',
    `export class Lease {
      renew(): void; // an overload
      renew(sentMs?: number): void {
        const endMs = Math.max( // the later
          this.endMs, sentMs +
            this.leaseMs,
        );
        if (endMs > this.endMs) this.log("renewed"); else this.lose();
        this.endMs = endMs;
        this.log("renewed");
        this.tell();
        this.sent();
      }
      readonly lose = () => this.tell();
    }
    const state = (at: number) => (at < 0 ? { at: 'never' } : { at });`,
  ],
  ['src/workflows/lease.ts', 'export class Lease { renew() { return this.sent(); } }\nconst state = 1;'],
]);

/** What a line of `Lease.renew` in the client's file has become. */
function planted(path: string, find: string, replace: string): string {
  const { file, text } = plant(declarationsOf(SOURCES), { in: path, find, replace });
  const before = SOURCES.get(file)?.split('\n') ?? [];
  const changed = text.split('\n').filter((line) => !before.includes(line));
  return `${file}: ${changed.map((line) => line.trim()).join(' ')}`;
}

test('a bug is planted where its code stands, however that is formatted and quoted', () => {
  const RENEW = 'client/Lease.renew';
  assert.equal(
    planted(RENEW, 'Math.max(this.endMs, (sentMs + this.leaseMs))', 'a, b'),
    'src/client/lease.ts: const endMs = (a, b);',
  );
  assert.equal(
    planted(RENEW, 'this.lose()', ''),
    'src/client/lease.ts: if (endMs > this.endMs) this.log("renewed"); else ;',
  );
  assert.match(planted(RENEW, 'this.lose();', ''), /else \{ {2}\}$/);
  assert.match(planted(RENEW, "this.log('renewed'); this.tell();", 'return;'), /^src\/client\/lease\.ts: return;$/);
  assert.match(planted('Lease.lose', 'this.tell()', 'undefined'), /readonly lose = \(\) => \(undefined\);$/);
  assert.match(planted('client/state', "{ at: 'never' }", '{ at: 0 }'), /\(at < 0 \? \(\{ at: 0 \}\) : \{ at \}\);$/);
  assert.match(
    planted('workflows/Lease.renew', 'return this.sent();', ''),
    /^src\/workflows\/lease\.ts: .*renew\(\) \{ {2}\} \}$/,
  );
});

for (const [what, [path, find, replace], expected] of [
  [
    'whose code is not there',
    ['client/Lease.renew', 'this.gone()', ''],
    /expected this once, found it 0 times: this\.gone/,
  ],
  [
    'that differs by its kind of variable',
    ['client/Lease.renew', 'let endMs = Math.max(this.endMs, sentMs + this.leaseMs);', ''],
    /found it 0 times/,
  ],
  [
    'whose code is there twice',
    ['client/Lease.renew', "this.log('renewed')", ''],
    /expected this once, found it 2 times/,
  ],
  ['in nothing', ['Lease.gone', 'a', ''], /Lease\.gone: there is none/],
  [
    'that two of that name have',
    ['Lease.renew', 'this.sent()', ''],
    /found it 2 times: .* \| src\/client\/lease\.ts \| src\/work/,
  ],
  ['in part of a folder', ['flows/Lease.renew', 'a', ''], /there is none/],
  ['that changes nothing', ['Lease.lose', 'this.tell()', '(this.tell()) // as before'], /changes nothing/],
  ['whose code is none', ['Lease.lose', 'if (', ''], /this is no code: if \(/],
  ['that finds nothing at all', ['Lease.lose', '// no code', ''], /there is nothing to find/],
  ['that leaves no code', ['Lease.lose', 'this.tell()', ''], /no code any more/],
] as const) {
  test(`a bug ${what} is refused`, () => {
    assert.throws(() => planted(path, find, replace), expected);
  });
}

test('a test is found by a part of its name, a file of tests by its base name; neither may be there twice', () => {
  const files = new Map([
    ['test/a/lease.test.ts', "test('a lease ends')"],
    ['test/b/permit.test.ts', "test('a permit ends')"],
    ['test/c/permit.test.ts', ''],
  ]);
  assert.deepEqual(testOf(files, 'a lease'), { file: 'test/a/lease.test.ts', test: 'a lease' });
  assert.deepEqual(testOf(files, 'lease.test.ts'), { file: 'test/a/lease.test.ts' });
  assert.throws(() => testOf(files, 'ends'), /found 2 \(test\/a\/lease\.test\.ts, test\/b\/permit\.test\.ts\): ends/);
  assert.throws(() => testOf(files, 'permit.test.ts'), /found 2/);
  assert.throws(() => testOf(files, 'a slot'), /found 0/);
});
