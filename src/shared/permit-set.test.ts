import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../test/support/fake-clock';
import { FakePool } from '../../test/support/fake-pool';
import { Acquirer, GivesWay } from './acquirer';
import { type ResolvedSemaphore, resolveSemaphore } from './options';
import {
  acquireInOrder,
  acquireUntilEnough,
  partsInOrder,
  permitsByEntry,
  releaseInReverse,
  type SetEntry,
  type SetPart,
  TooFewSlots,
  ticketPartOf,
  wantedOf,
} from './permit-set';

type Entry = SetEntry<ResolvedSemaphore>;

const poolOf = (resource: string, perKey?: number): ResolvedSemaphore =>
  resolveSemaphore(resource, { capacity: 3, perKey }, { leaseMs: 1_000 });
const pools = (...resources: string[]) => resources.map((resource) => poolOf(resource));
const isPool = (value: unknown) =>
  typeof value === 'object' && value !== null && 'slots' in value ? (value as ResolvedSemaphore) : undefined;
const parts = (entries: Entry[], outlivesRun = false) => partsInOrder(wantedOf(entries, isPool), { outlivesRun });
const order = (entries: Entry[]) => parts(entries).map(({ semaphore }) => semaphore.resource);

test('whatever order the caller writes, parts are claimed by the bytes of their names', () => {
  assert.deepEqual(order(pools('b', 'a')), ['a', 'b']);
  assert.deepEqual(order([{ of: poolOf('ab') }, poolOf('a')]), ['a', 'ab']);
  // UTF-16 would have it the other way round: it writes the last as a pair of units that come before U+FF21.
  assert.deepEqual(order(pools('\u{1d49c}', 'Ａ')), ['Ａ', '\u{1d49c}']);
});

test("a key's pool comes right before its resource, whatever else is in the set", () => {
  const keyed = { of: poolOf('b', 2), key: 'x' };
  assert.deepEqual(order([poolOf('b~'), keyed, poolOf('a'), poolOf('bb')]), ['a', 'b~key:x', 'b', 'bb', 'b~']);
  const [key, whole] = parts([keyed]) as [SetPart<ResolvedSemaphore>, SetPart<ResolvedSemaphore>];
  assert.deepEqual(key.semaphore.slots, ['0', '1']);
  const held = [
    { part: key, grant: 'of the key' },
    { part: whole, grant: 'of all' },
  ];
  const name = (own: string, behind: string | undefined) => `${own}, behind it ${behind}`;
  assert.deepEqual(permitsByEntry([{}], held, name).permits, ['of all, behind it of the key']);
  assert.deepEqual(permitsByEntry([{ permits: 1 }], held, name).permits, [['of all, behind it of the key']]);
});

test('an entry with a key is refused where the permits may be handed over: nobody could adopt that of the key', () => {
  assert.throws(
    () => parts([poolOf('a'), { of: poolOf('b', 2), key: 'x' }], true),
    /outlivesRun can't be combined with key: no caller could adopt/,
  );
  assert.equal(parts([{ of: poolOf('a'), permits: 2 }], true).length, 3);
});

test('a set drops nobody from a line and is not dropped, unless it is one permit', () => {
  const dropping = (entries: Entry[]) =>
    partsInOrder(wantedOf(entries, isPool), { outlivesRun: false, whenFull: 'drop-oldest' }).length;
  assert.equal(dropping([{ of: poolOf('a'), permits: 1 }]), 1);
  for (const entries of [pools('a', 'b'), [{ of: poolOf('a'), permits: 2 }], [{ of: poolOf('a', 2), key: 'x' }]]) {
    assert.throws(() => dropping(entries), /whenFull: "drop-oldest" can't be combined with several permits or a key/);
  }
});

test('who wants several of one resource takes the permit to accumulate first', () => {
  const names = (entries: Entry[]) => parts(entries).map(({ semaphore }) => semaphore.resource);
  assert.deepEqual(names([{ of: poolOf('b'), permits: 2 }, poolOf('a')]), ['a', 'b~set', 'b', 'b']);
  assert.deepEqual(names([{ of: poolOf('b'), permits: 1 }]), ['b']);
  const keyed = { of: poolOf('b', 2), key: 'x', permits: 2 };
  assert.deepEqual(names([keyed]), ['b~key:x~set', 'b~key:x', 'b~key:x', 'b~set', 'b', 'b']);
  const [accumulator] = parts([{ of: poolOf('b'), permits: 2 }]);
  assert.deepEqual(accumulator?.semaphore.slots, ['0']);
  assert.throws(() => names([{ of: poolOf('b'), permits: 4 }]), /permits: expected at most 3, the capacity of "b"/);
  assert.throws(() => names([{ ...keyed, permits: 3 }]), /permits: expected at most 2, the capacity of "b~key:x"/);
  assert.throws(() => names([{ of: poolOf('b'), permits: 0 }]), /permits: expected a whole number from 1/);
});

test('the caller gets its permits in the order that it wrote', () => {
  const held = parts(pools('c', 'a', 'b')).map((part) => ({ part, grant: `permit of ${part.resource}` }));
  const { permits, inOrder } = permitsByEntry([{}, {}, {}], held, (own) => own);
  assert.deepEqual(permits, ['permit of c', 'permit of a', 'permit of b']);
  assert.deepEqual(inOrder, ['permit of a', 'permit of b', 'permit of c']);
});

test('no entries, a resource twice, a missing key and what is no semaphore are refused', () => {
  assert.throws(() => order([]), /entries: expected an array of one or more semaphores/);
  assert.throws(() => order(pools('a', 'b', 'a')), /entries: expected each resource once, got "a"/);
  assert.throws(() => order([{ of: 'a' } as unknown as Entry]), /entries\[0\]: expected a semaphore/);
  assert.throws(() => order([poolOf('a', 1)]), /key: expected a key, because "a" has a limit perKey, got undefined/);
  assert.throws(
    () => order([{ of: poolOf('a'), key: 'x' }]),
    /key "x": the semaphore of "a" has no perKey\. Leave the key out, or give perKey\./,
  );
  assert.throws(() => order([{ of: poolOf('a', 1), key: '' }]), /key: expected a non-empty string/);
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

/** One part's wait: from when to when, and its outcome. */
interface Wait {
  part: number;
  fromMs: number;
  untilMs: number;
  won: boolean;
}

test('with any pools: one part at a time, all or none, and back in reverse order (S1, S2, S3)', async () => {
  const anyPool = fc.record({
    freeAtMs: fc.array(fc.oneof(fc.constant(NEVER), fc.nat(3_000)), { minLength: 1, maxLength: 4 }),
    words: fc.array(fc.record({ atMs: fc.nat(4_000), word: fc.nat(3) }), { maxLength: 8 }),
    failingClaim: fc.option(fc.nat(6), { nil: undefined }),
    hasLine: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(anyPool, { minLength: 1, maxLength: 4 }), fc.nat(5_000), async (scripts, deadlineMs) => {
      const clock = new FakeClock();
      // Each resource has two parts, of which the first may be the accumulator's.
      const parts = scripts.map(({ hasLine }, part) => {
        return {
          part,
          resource: `r${Math.floor(part / 2)}`,
          role: part % 2 === 0 && hasLine ? ('accumulator' as const) : ('own' as const),
        };
      });
      const waits: Wait[] = [];
      const held: number[] = [];
      const releases: number[] = [];
      const acquire = async ({ part }: { part: number }) => {
        const before = parts.slice(0, part);
        const open = before.filter((it) => it.role !== 'accumulator' || it.resource === parts[part]?.resource);
        assert.deepEqual(
          held,
          open.map((it) => it.part),
          'S1: it holds all that come before, S3: and an accumulator until it has what it accumulates',
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
            const isDone = parts[part]?.role === 'accumulator' && waits.at(-1)?.won;
            if (isDone) held.splice(held.indexOf(part), 1);
            else assert.equal(held.pop(), part, 'S2: the last first');
            releases.push(part);
          },
        };
      };
      const ended = await clock.run(acquireInOrder(parts, acquire, () => {}).catch((error: Error) => error.message));

      for (const [index, { fromMs, part }] of waits.entries()) {
        assert.equal(part, index);
        assert.ok(index === 0 || fromMs >= (waits[index - 1]?.untilMs ?? NEVER), 'S1: one part at a time');
      }
      const missed = ({ part }: Wait) => parts[part]?.resource;
      const missing = waits.find(({ won }) => !won);
      if (missing) {
        assert.ok(ended === 'late' || ended === 'cancelled', String(ended));
        assert.deepEqual(held, [], 'S2: none is held');
        const given = parts
          .slice(0, missing.part)
          .filter((it) => !(it.role === 'accumulator' && it.resource !== missed(missing)));
        const back = releases.slice(-given.length || releases.length);
        assert.deepEqual(back, given.map((it) => it.part).reverse(), 'S2: the last first');
        // A part whose turn comes after the deadline has its first tries all the same (A7 of the acquirer): two calls of 5 ms.
        const lastMs = deadlineMs + 10 * parts.length;
        assert.ok(missing.untilMs <= lastMs || ended === 'cancelled', 'one deadline for all');
      } else {
        const accumulators = parts.filter((it) => it.role === 'accumulator').map((it) => it.part);
        assert.deepEqual(releases, accumulators, 'S3');
        assert.deepEqual(
          held,
          parts.filter((it) => it.role !== 'accumulator').map((it) => it.part),
        );
      }
    }),
    { numRuns: 300 },
  );
});

test('one that gives way gives back what admits it to the resource, keeps the rest, and claims again from there (S4)', async () => {
  const done: string[] = [];
  let turns = 0;
  const claim = async ({ semaphore: { resource } }: SetPart<ResolvedSemaphore>, _held: unknown, isAgain: boolean) => {
    done.push(isAgain ? `${resource}, again` : resource);
    if (resource === 'b' && turns++ === 0) throw new GivesWay();
    return { release: async () => void done.push(`- ${resource}`) };
  };
  const keyed = { of: poolOf('b', 2), key: 'x', permits: 2 };
  const held = await acquireInOrder(parts([poolOf('a'), keyed, poolOf('c')]), claim, () => {});
  const [before, after] = [done.slice(0, 11), done.slice(11)];
  assert.deepEqual(
    before.join(' '),
    'a b~key:x~set b~key:x b~key:x - b~key:x~set b~set b - b~set - b~key:x - b~key:x b~key:x~set, again',
  );
  assert.deepEqual(
    after.filter((it) => it.startsWith('-')),
    ['- b~key:x~set', '- b~set'],
  );
  assert.ok(after.every((it) => it.startsWith('-') || it.endsWith('again')));
  assert.deepEqual(
    held.map(({ part }) => part.semaphore.resource),
    ['a', 'b~key:x', 'b~key:x', 'b', 'b', 'c'],
  );
});

test('one that gives way gives back at once whatever it can, though a permit behind it does not end', async () => {
  const back: string[] = [];
  const claim = async ({ semaphore: { resource } }: SetPart<ResolvedSemaphore>) => {
    if (resource === 'b') throw new GivesWay();
    const isPaused = resource === 'b~set';
    return { release: () => (isPaused ? new Promise<void>(() => {}) : Promise.resolve(void back.push(resource))) };
  };
  const keyed = { of: poolOf('b', 2), key: 'x', permits: 2 };
  void acquireInOrder(
    parts([keyed]).filter(({ semaphore: { resource } }) => resource !== 'b~key:x~set'),
    claim,
    () => {},
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(back, ['b~key:x', 'b~key:x']);
});

test('one that fails as it gives way has given back what it had', async () => {
  const held = new Set<string>();
  const claim = async ({ semaphore: { resource } }: SetPart<ResolvedSemaphore>, _held: unknown, isAgain: boolean) => {
    if (resource === 'b') throw new GivesWay();
    if (isAgain) throw new Error('cancelled');
    held.add(resource);
    return { release: async () => void held.delete(resource) };
  };
  const keyed = { of: poolOf('b', 2), key: 'x' };
  await assert.rejects(
    acquireInOrder(parts([poolOf('a'), keyed]), claim, () => {}),
    /cancelled/,
  );
  assert.equal(held.size, 0, 'S2');
});

test('a caller gives way that keeps nothing but what admits it to the resource', () => {
  const [key = assert.fail(), whole = assert.fail()] = parts([{ of: poolOf('b', 2), key: 'x' }]);
  const [accumulator = assert.fail(), own = assert.fail()] = parts([{ of: poolOf('b'), permits: 2 }]);
  const givesWay = (part: SetPart<ResolvedSemaphore>, ...held: string[]) =>
    ticketPartOf(
      part,
      held.map((resource) => ({ resource })),
    ).givesWay;
  assert.equal(givesWay(whole, 'b~key:x'), true);
  assert.equal(givesWay(own, 'b~set'), true);
  assert.equal(givesWay(accumulator, 'b~key:x', 'b~key:x'), true);
  assert.equal(givesWay(own, 'b~set', 'b'), undefined, 'it keeps a part');
  assert.equal(givesWay(own, 'a', 'b~set'), undefined, 'it keeps a part of its set');
  for (const part of [key, accumulator]) assert.equal(givesWay(part), undefined);
});

test('as long as too few slots are in use it comes back, ever more rarely; what else fails is thrown', async () => {
  const pauses: number[] = [];
  let left = 7;
  const acquire = async () => {
    if (left-- > 0) throw new TooFewSlots('gpus', 100);
    return 'held';
  };
  const pause = async (ms: number) => void pauses.push(ms);
  const never = () => false;
  assert.equal(await acquireUntilEnough(acquire, pause, () => 0, never), 'held');
  assert.deepEqual(pauses, [100, 200, 400, 800, 1_600, 2_000, 2_000]);
  const late = async (_ms: number, resource: string) => {
    throw new Error(`late for ${resource}`);
  };
  left = 1;
  await assert.rejects(acquireUntilEnough(acquire, late, Math.random, never), /late for gpus/);
  const failing = async () => {
    throw new Error('forbidden');
  };
  await assert.rejects(acquireUntilEnough(failing, pause, Math.random, never), /forbidden/);
});

test('a release of several that fails and that nobody awaits does not end the process', async () => {
  const failing = { release: () => Promise.reject(new Error('refused')) };
  const released = releaseInReverse([failing, failing]);
  await new Promise((resolve) => setImmediate(resolve)); // Node would have thrown by then
  await assert.rejects(released, /refused/);
});
