import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../test/support/fake-clock';
import { FakePool } from '../../test/support/fake-pool';
import { Acquirer } from './acquirer';
import { acquireInOrder, byEntry, partsInOrder, releaseInReverse, type SetEntry } from './permit-set';

interface Pool {
  resource: string;
}

const isPool = (value: unknown): value is Pool => typeof value === 'object' && value !== null && 'resource' in value;
const pools = (...resources: string[]) => resources.map((resource) => ({ resource }));
const order = (entries: SetEntry<Pool>[]) => partsInOrder(entries, isPool).map(({ resource }) => resource);

test('whatever order the caller writes, parts are claimed by the bytes of their names', () => {
  assert.deepEqual(order(pools('b', 'a')), ['a', 'b']);
  assert.deepEqual(order([{ of: { resource: 'ab' } }, { resource: 'a' }]), ['a', 'ab']);
  // UTF-16 would have it the other way round: it writes the last as a pair of units that come before U+FF21.
  assert.deepEqual(order(pools('\u{1d49c}', 'Ａ')), ['Ａ', '\u{1d49c}']);
});

test('the caller gets its permits in the order that it wrote', () => {
  const parts = partsInOrder(pools('c', 'a', 'b'), isPool);
  assert.deepEqual(byEntry(parts, ['permit of a', 'permit of b', 'permit of c']), [
    'permit of c',
    'permit of a',
    'permit of b',
  ]);
});

test('no entries, a resource twice and what is no semaphore are refused', () => {
  assert.throws(() => order([]), /entries: expected an array of one or more semaphores/);
  assert.throws(() => order(pools('a', 'b', 'a')), /entries: expected each resource once, got "a"/);
  assert.throws(() => order([{ of: 'a' } as unknown as Pool]), /entries\[0\]: expected a semaphore/);
});

test('a release that fails keeps none of the others from being tried, and is told', async () => {
  const released: number[] = [];
  const permits = [0, 1, 2].map((it) => ({
    release: async () => {
      released.push(it);
      if (it === 1) throw new Error('refused');
    },
  }));
  await assert.rejects(releaseInReverse(permits), /refused/);
  assert.deepEqual(released, [2, 1, 0]);
});

const NEVER = Number.POSITIVE_INFINITY;
const RELEASE_MS = 7;

/** What one part of the set did: from when to when it waited, and what came of it. */
interface Wait {
  part: number;
  fromMs: number;
  untilMs: number;
  won: boolean;
}

test('with any pools: one part at a time, all or none, and back in reverse order (S1, S2)', async () => {
  const anyPool = fc.record({
    freeAtMs: fc.array(fc.oneof(fc.constant(NEVER), fc.nat(3_000)), { minLength: 1, maxLength: 4 }),
    words: fc.array(fc.record({ atMs: fc.nat(4_000), word: fc.nat(3) }), { maxLength: 8 }),
    failingClaim: fc.option(fc.nat(6), { nil: undefined }),
    hasLine: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(anyPool, { minLength: 1, maxLength: 4 }), fc.nat(5_000), async (scripts, deadlineMs) => {
      const clock = new FakeClock();
      const waits: Wait[] = [];
      const held: number[] = [];
      const releases: number[] = [];
      const acquire = async (part: number) => {
        assert.deepEqual(
          held,
          Array.from({ length: part }, (_, before) => before),
          'S1: it holds all that come before',
        );
        const pool = new FakePool(scripts[part] ?? assert.fail(), part + 1, clock);
        const { slots } = pool;
        const options = { slots, deadlineMs, recheckAfterMs: 500, firstTries: 2, triesBeforeJoin: 1, triesPerRound: 2 };
        const wait: Wait = { part, fromMs: clock.nowMs, untilMs: NEVER, won: false };
        waits.push(wait);
        try {
          const won = await new Acquirer(options, pool).acquire();
          if (won === undefined) throw new Error('late');
          wait.won = true;
          held.push(part);
        } finally {
          wait.untilMs = clock.nowMs;
        }
        return {
          release: async () => {
            await clock.sleep(RELEASE_MS);
            assert.equal(held.pop(), part, 'S2: the last first');
            releases.push(part);
          },
        };
      };
      const parts = scripts.map((_, part) => part);
      const ended = await clock.run(acquireInOrder(parts, acquire).catch((error: Error) => error.message));

      for (const [index, { fromMs, part }] of waits.entries()) {
        assert.equal(part, index);
        assert.ok(index === 0 || fromMs >= (waits[index - 1]?.untilMs ?? NEVER), 'S1: one part at a time');
      }
      const missing = waits.find(({ won }) => !won);
      if (missing) {
        assert.ok(ended === 'late' || ended === 'cancelled', String(ended));
        assert.deepEqual(held, [], 'S2: none is held');
        assert.deepEqual(releases, parts.slice(0, missing.part).reverse());
        assert.ok(missing.untilMs <= deadlineMs + 10 || ended === 'cancelled', 'one deadline for all');
      } else {
        assert.deepEqual(held, parts);
        assert.deepEqual(releases, []);
      }
    }),
    { numRuns: 300 },
  );
});
