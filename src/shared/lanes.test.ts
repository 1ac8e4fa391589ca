import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Items, type LaneRules, type LaneSurroundings, Lanes } from './lanes';

interface Permit {
  loss?: Error;
}

const RULES: LaneRules = {
  concurrency: 3,
  chunk: Number.POSITIVE_INFINITY,
  reuseForMs: 1_000,
  onError: 'stop',
  from: 0,
};

/** Some event-loop turns: whatever can happen without news from outside has happened then. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Permits of a pool that is not there: so many are free, and a lane waits for one. */
class FakePermits implements LaneSurroundings<Permit> {
  readonly held = new Set<Permit>();
  readonly waiting: (() => void)[] = [];
  taken = 0;
  left = 0;
  clockMs = 0;
  most = 0;
  refusal: Error | undefined;
  cancel: (error: Error) => void = () => {};
  readonly cancelled = new Promise<never>((_, reject) => {
    this.cancel = reject;
  });
  isFull?: () => boolean;
  losesAtEnd = false;

  constructor(private free: number) {}

  nowMs = () => this.clockMs;
  lossOf = async ({ loss }: Permit) => loss;
  isHeld = (permit: Permit) => this.held.has(permit);

  open(use: (permit: Permit) => Promise<void>) {
    let isLeft = false;
    let wake = () => {};
    const done = (async () => {
      if (this.refusal) throw this.refusal;
      while (this.free === 0) {
        if (isLeft) {
          this.left++;
          return;
        }
        await new Promise<void>((resolve) => {
          wake = resolve;
          this.waiting.push(resolve);
        });
      }
      this.free--;
      this.taken++;
      const permit: Permit = {};
      this.held.add(permit);
      this.most = Math.max(this.most, this.held.size);
      try {
        await use(permit);
        if (this.losesAtEnd) permit.loss = lostError();
        if (permit.loss) throw permit.loss;
      } catch (error) {
        throw permit.loss ?? error;
      } finally {
        this.held.delete(permit);
        this.add();
      }
    })();
    return {
      done,
      leave: () => {
        isLeft = true;
        wake();
      },
    };
  }

  /** One more is free. */
  add(): void {
    this.free++;
    for (const wake of this.waiting.splice(0)) wake();
  }
}

function lostError(): Error {
  return Object.assign(new Error('lost'), { name: 'PermitLostError' });
}

function numbers(count: number): number[] {
  return [...Array(count).keys()];
}

async function* slowly<T>(items: readonly T[], ms = 1): AsyncGenerator<T> {
  for (const item of items) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    yield item;
  }
}

function values(outcomes: readonly PromiseSettledResult<number>[]): number[] {
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<number>).value);
}

test('L1, L2: two permits serve all items of three lanes, in order, and the lane without one leaves', async () => {
  const permits = new FakePermits(2);
  const begun: number[] = [];
  const lanes = new Lanes(
    numbers(20),
    async (item: number) => {
      begun.push(item);
      await settled();
      return item * 2;
    },
    RULES,
    permits,
  );
  const { outcomes, next } = await lanes.run();
  assert.deepEqual(
    values(outcomes),
    numbers(20).map((n) => n * 2),
  );
  assert.deepEqual(begun, numbers(20), 'L3');
  assert.equal(next, undefined);
  assert.deepEqual([permits.taken, permits.left, permits.most], [2, 1, 2]);
});

test('one item opens one lane, and none opens none', async () => {
  const permits = new FakePermits(3);
  assert.deepEqual((await new Lanes([], async () => 1, RULES, permits).run()).outcomes, []);
  assert.equal(permits.taken, 0);
  await new Lanes([7], async () => 1, RULES, permits).run();
  assert.equal(permits.taken, 1);
});

test('a permit serves at most a chunk, and begins no item after reuseFor', async () => {
  const chunks = new FakePermits(1);
  await new Lanes(numbers(10), async () => 0, { ...RULES, concurrency: 1, chunk: 4 }, chunks).run();
  assert.equal(chunks.taken, 3);
  const timed = new FakePermits(1);
  const fn = async () => {
    timed.clockMs += 300;
  };
  await new Lanes(numbers(10), fn, { ...RULES, concurrency: 1 }, timed).run();
  assert.equal(timed.taken, 3, 'four items of 300 ms each');
});

test('L4: no permit is held while the source gives nothing; one that gives at once costs no permit more', async () => {
  const permits = new FakePermits(3);
  const heldWhileWaiting: number[] = [];
  async function* source() {
    for (let item = 0; item < 4; item++) {
      if (item % 2 === 0) {
        await settled();
        heldWhileWaiting.push(permits.held.size);
      }
      for (let step = 0; step < 6; step++) await undefined;
      yield item;
    }
  }
  await new Lanes(source(), async () => 0, { ...RULES, concurrency: 1 }, permits).run();
  assert.deepEqual(heldWhileWaiting, [0, 0]);
  assert.equal(permits.taken, 2, 'two pages');
});

test('L5: the first error stops; what runs comes to its end, what waits leaves, and the source is closed', async () => {
  const permits = new FakePermits(2);
  let isClosed = false;
  let ended = 0;
  function* source() {
    try {
      yield* numbers(100);
    } finally {
      isClosed = true;
    }
  }
  const fn = async (item: number) => {
    await settled();
    if (item === 1) throw new Error('one');
    await settled();
    ended++;
  };
  await assert.rejects(new Lanes(source(), fn, RULES, permits).run(), /one/);
  assert.deepEqual([ended, permits.held.size, permits.left, isClosed], [1, 0, 1, true]);
});

test('with collect the others go on, and each has its outcome', async () => {
  const permits = new FakePermits(2);
  const fn = async (item: number) => {
    if (item % 2 === 1) throw new Error(`${item}`);
    return item;
  };
  const { outcomes } = await new Lanes(numbers(5), fn, { ...RULES, onError: 'collect' }, permits).run();
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  );
  assert.equal(permits.taken, 2, 'a failure keeps the permit');
});

test('L6: a lost permit fails the item under it whatever it returned; lost between two items, it fails none', async () => {
  const permits = new FakePermits(1);
  const fn = async (item: number, permit: Permit) => {
    if (item === 1) permit.loss = lostError();
    return item;
  };
  const rules: LaneRules = { ...RULES, concurrency: 1, onError: 'collect' };
  const { outcomes } = await new Lanes(numbers(4), fn, rules, permits).run();
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.name : outcome.value)),
    [0, 'PermitLostError', 2, 3],
  );
  assert.equal(permits.taken, 2);
  await assert.rejects(new Lanes(numbers(4), fn, { ...rules, onError: 'stop' }, permits).run(), { message: 'lost' });

  const between = new FakePermits(1);
  between.losesAtEnd = true;
  const { outcomes: all } = await new Lanes(
    numbers(3),
    async (item: number) => item,
    { ...rules, chunk: 1 },
    between,
  ).run();
  assert.deepEqual(values(all), [0, 1, 2]);
});

test('cancelled, it begins nothing more, and throws the reason when all have ended', async () => {
  for (const onError of ['stop', 'collect'] as const) {
    const permits = new FakePermits(2);
    const begun: number[] = [];
    const fn = async (item: number) => {
      begun.push(item);
      if (item === 1) permits.cancel(new Error('enough'));
      await settled();
    };
    await assert.rejects(new Lanes(numbers(9), fn, { ...RULES, onError }, permits).run(), /enough/);
    assert.deepEqual([begun, permits.held.size], [[0, 1], 0]);
  }
});

test('cancelled while a source gives nothing, it does not wait for the source', async () => {
  const permits = new FakePermits(1);
  async function* source() {
    yield 1;
    await new Promise(() => {});
  }
  const fn = async () => permits.cancel(new Error('enough'));
  await assert.rejects(new Lanes(source(), fn, RULES, permits).run(), /enough/);
});

test('the failure of the source, and that of every acquire, is thrown also where errors are collected', async () => {
  async function* source() {
    yield* numbers(2);
    throw new Error('no page');
  }
  const rules: LaneRules = { ...RULES, onError: 'collect' };
  await assert.rejects(new Lanes(source(), async () => 0, rules, new FakePermits(1)).run(), /no page/);
  const refusing = new FakePermits(1);
  refusing.refusal = new Error('forbidden');
  await assert.rejects(new Lanes(numbers(2), async () => 0, rules, refusing).run(), /forbidden/);
});

test('full runs, one after the other, begin each item exactly once, whatever gives the items', async () => {
  const sources: ((items: number[]) => Items<number>)[] = [
    (items) => items,
    (items) => new Set(items),
    (items) => slowly(items, 0),
    (items) => (from) => items.slice(from),
    (items) => (from) => slowly(items.slice(from), 0),
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...sources),
      fc.nat(20),
      fc.nat(2),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 3 }),
      fc.infiniteStream(fc.nat(3)),
      async (source, count, perRun, concurrency, free, luck) => {
        const done: number[] = [];
        let from: number | undefined = 0;
        for (let runs = 0; from !== undefined; runs++) {
          assert.ok(runs <= count + 1, 'every run gets on');
          const permits = new FakePermits(free);
          let begun = 0;
          permits.isFull = () => begun >= perRun;
          let now = 0;
          const fn = async (item: number) => {
            begun++;
            assert.ok(++now <= Math.min(concurrency, free), 'L1');
            for (let turns = luck.next().value; turns > 0; turns--) await settled();
            now--;
            return item;
          };
          const { outcomes, next } = await new Lanes(
            source(numbers(count)),
            fn,
            { ...RULES, concurrency, from },
            permits,
          ).run();
          done.push(...values(outcomes));
          assert.equal(permits.held.size, 0);
          assert.ok(begun <= Math.max(1, perRun) + concurrency, 'L5');
          from = next;
        }
        assert.deepEqual(done, numbers(count));
      },
    ),
    { numRuns: 60 },
  );
});
