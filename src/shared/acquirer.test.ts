import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Deed, FakePool, type PoolScript } from '../../test/support/fake-pool';
import { type ForgedTurn, NO_COUNTED_SLOTS, NO_NAMED_SLOTS } from '../../test/support/malformed';
import { Acquirer, type AcquirerOptions, offersSlot } from './acquirer';
import { slotNames } from './slots';
import { readTurn } from './wire-input';

const NEVER = Number.POSITIVE_INFINITY;
const RECHECK_MS = 1_000;

type Options = Partial<Omit<AcquirerOptions, 'slots' | 'recheckAfterMs'>>;

async function acquire(script: PoolScript, options: Options = {}, seed = 1) {
  const pool = new FakePool(script, seed);
  const acquirer = new Acquirer(
    {
      slots: pool.slots,
      recheckAfterMs: RECHECK_MS,
      deadlineMs: NEVER,
      firstTries: 2,
      triesBeforeJoin: 1,
      triesPerRound: 5,
      ...options,
    },
    pool,
  );
  const won = await pool.clock.run(acquirer.acquire().catch((error: Error) => error.message));
  return { won, pool, deeds: pool.deeds, endedMs: pool.nowMs() };
}

const did = (deeds: Deed[]) => deeds.map((deed) => deed.did).join(' ');
const claims = (deeds: Deed[]) => deeds.filter((deed) => deed.did === 'claim');
const ownTries = (deeds: Deed[]) => claims(deeds).filter(({ offer }) => !offer);
const timesOf = (deeds: Deed[], what: Deed['did']) => deeds.filter((deed) => deed.did === what).map(({ atMs }) => atMs);

test('a free slot is had at once, and nobody hears of it', async () => {
  const { won, deeds } = await acquire({ freeAtMs: [0] });
  assert.equal(won, '0');
  assert.equal(did(deeds), 'claim leave');
});

test('where all is taken, a newcomer tries two slots around asking for a line, then starts one', async () => {
  const { deeds } = await acquire({ freeAtMs: [NEVER, NEVER, NEVER] }, { deadlineMs: 100 });
  assert.equal(did(deeds), 'claim join claim enter hear leave');
});

test('where others wait, a newcomer tries one slot; in strict order none (A2)', async () => {
  const taken = { freeAtMs: [NEVER, NEVER, NEVER], hasLine: true };
  assert.equal(did((await acquire(taken, { deadlineMs: 100 })).deeds), 'claim join hear leave');
  assert.equal(did((await acquire(taken, { deadlineMs: 100, triesBeforeJoin: 0 })).deeds), 'join hear leave');
});

test('an offer is claimed, and nothing said when it is had (A3)', async () => {
  const { won, deeds } = await acquire({ freeAtMs: [50], words: [{ atMs: 60, word: 0 }] });
  assert.equal(won, '0');
  assert.equal(did(deeds), 'claim enter hear claim served leave');
});

test('beaten at its offer it says so and waits on; an added slot is taken as offered', async () => {
  const words = [
    { atMs: 60, word: 0 },
    { atMs: 90, word: 7 },
  ];
  const { won, deeds } = await acquire({ freeAtMs: [NEVER], words });
  assert.equal(won, '7');
  assert.equal(did(deeds), 'claim enter hear claim missed hear claim served leave');
});

test('an offer whose claim fails stays open for leave to pass on (A3, A4)', async () => {
  const { won, deeds } = await acquire({ freeAtMs: [50], words: [{ atMs: 60, word: 0 }], failingClaim: 1 });
  assert.equal(won, 'cancelled');
  assert.equal(did(deeds), 'claim enter hear claim leave');
});

test('while the queue answers it tries nothing, and asks after recheckAfter, then 20 to 25 times that, and ever more rarely (A6)', async () => {
  const { deeds } = await acquire({ freeAtMs: [NEVER, 10_000], hasLine: true }, { deadlineMs: 300_000 });
  assert.equal(ownTries(deeds).length, 1);
  const asks = timesOf(deeds, 'ask');
  const gaps = asks.map((ms, index) => ms - (asks[index - 1] ?? 0));
  assert.ok(gaps.length >= 4);
  for (const [index, gap] of gaps.entries()) {
    const [least, most] = index === 0 ? [0.75, 1] : [20, Math.max(25, (asks[index - 1] ?? 0) / RECHECK_MS)];
    assert.ok(gap >= least * RECHECK_MS && gap <= most * RECHECK_MS + 300, `${gap} ms`);
  }
});

test('a queue that was slow to take the ticket has 20 times as long for word of it, and for its answer (A5)', async () => {
  for (const hasLine of [true, false]) {
    const script = { freeAtMs: [NEVER, NEVER], hasLine, takesMs: 1_000, queueDiesAtMs: 0 };
    const { deeds } = await acquire(script, { deadlineMs: 60_000 });
    const [asked = 0] = timesOf(deeds, 'ask');
    const tried = ownTries(deeds).find(({ atMs }) => atMs > asked)?.atMs ?? 0;
    for (const silence of [asked, tried - asked])
      assert.ok(silence >= 15_000 && silence <= 22_000, `${asked}, ${tried}`);
  }
});

test('while the queue owes an answer, every slot is tried in turn; after a rotation it backs off, and asks again each time (A5)', async () => {
  const { deeds } = await acquire({ freeAtMs: Array(12).fill(NEVER), queueDiesAtMs: 0 }, { deadlineMs: 200_000 });
  const tries = ownTries(deeds).slice(2);
  const rounds = tries.flatMap(({ atMs }, index) => (index % 5 === 0 ? atMs : []));
  const gaps = rounds.slice(1).map((ms, index) => ms - (rounds[index] ?? 0));
  assert.ok(gaps.length >= 5, `${rounds}`);
  for (const [index, gap] of gaps.entries()) {
    if (index < 2) assert.ok(gap <= RECHECK_MS + 100, `three rounds go through twelve slots: ${gaps}`);
    else assert.ok(gap >= 15 * RECHECK_MS, `${gaps}`);
  }
  assert.equal(timesOf(deeds, 'ask').length, 1 + rounds.length - 3, 'a stuck queue keeps every signal');
});

/** As a Workflow's history has it, each with the Workflow Tasks that it causes. */
const EVENTS = { timer: 5, ask: 5, answeredAsk: 16, claim: 5 };

for (const [queue, dies] of [
  ['a stuck queue', { queueDiesAtMs: 0 }],
  ['a queue that answers', {}],
] as const) {
  test(`behind ${queue}, a Workflow's history grows by no more than 200 events a day`, async () => {
    const dayMs = 24 * 3_600_000;
    for (const slots of [1, 4, 10, 300]) {
      for (const seed of [1, 2, 3]) {
        const pool = new FakePool({ freeAtMs: Array(slots).fill(NEVER), hasLine: true, ...dies }, seed);
        const options = { firstTries: 2, triesBeforeJoin: 1, triesPerRound: 2, recheckAfterMs: 30_000 };
        const acquirer = new Acquirer({ ...options, slots: pool.slots, deadlineMs: 3 * dayMs }, pool);
        await pool.clock.run(acquirer.acquire());
        for (let day = 0; day < 3; day++) {
          const deeds = pool.deeds.filter(({ atMs }) => atMs > day * dayMs && atMs <= (day + 1) * dayMs);
          const count = (what: Deed['did']) => deeds.filter(({ did }) => did === what).length;
          const isStuck = queue === 'a stuck queue';
          const looks = isStuck
            ? count('hear') * EVENTS.timer + count('ask') * EVENTS.ask
            : count('ask') * EVENTS.answeredAsk;
          const events = looks + count('claim') * EVENTS.claim;
          assert.ok(events <= 200, `${events} events on day ${day} in a pool of ${slots}`);
          assert.ok(events > 20, 'it goes on trying');
        }
      }
    }
  });
}

test('a queue that comes back ends the rounds', async () => {
  const words = [{ atMs: 5_500, word: 'waiting' as const }];
  const { deeds } = await acquire({ freeAtMs: [NEVER], queueDiesAtMs: 5_501, words }, { deadlineMs: 9_000 });
  const pool = ownTries(deeds).filter(({ atMs }) => atMs > 5_500);
  assert.deepEqual(pool, []);
});

test('no room: it asks again after 1 s to 30 s, and tries nothing meanwhile', async () => {
  const words = [0, 2_000, 5_000, 10_000].map((atMs) => ({ atMs, word: 'full' as const }));
  const { deeds } = await acquire({ freeAtMs: [NEVER, 20], hasLine: true, words }, { deadlineMs: 12_000 });
  assert.equal(ownTries(deeds).length, 1);
  assert.ok(timesOf(deeds, 'ask').length >= 3);
});

test('its ticket is refused: it sends it again after 1 s to 30 s, also with a bound, and goes on waiting', async () => {
  const pool = new FakePool({ freeAtMs: [NEVER], hasLine: true, words: [{ atMs: 60, word: 'refused' }] });
  const options = { slots: pool.slots, recheckAfterMs: 30_000, deadlineMs: 20_000 };
  const tries = { firstTries: 1, triesBeforeJoin: 0, triesPerRound: 1 };
  const full = () => assert.fail('nobody has said that the line is full');
  const acquirer = new Acquirer({ ...options, ...tries }, Object.assign(pool, { full }));
  assert.equal(await pool.clock.run(acquirer.acquire()), undefined);
  const [asked = 0] = timesOf(pool.deeds, 'ask');
  assert.ok(asked >= 500 && asked <= 1_100, `${asked}`);
});

test('told by its waiter that the queue is stuck, it makes a round at once', async () => {
  const words = [{ atMs: 500, word: 'stuck' as const }];
  const script = { freeAtMs: [NEVER, NEVER, 400], cannotAsk: true, words };
  const { won, endedMs } = await acquire(script, { triesBeforeJoin: 0, firstTries: 2 });
  assert.equal(won, '2');
  assert.ok(endedMs < 600);
});

test('who does not wait tries each slot once; in strict order only if no queue runs, and else takes its turn or leaves', async () => {
  const tryNow = async (script: PoolScript, triesBeforeJoin: number) => {
    const pool = new FakePool(script);
    const options = {
      slots: pool.slots,
      recheckAfterMs: RECHECK_MS,
      deadlineMs: NEVER,
      firstTries: 2,
      triesPerRound: 2,
    };
    const won = await pool.clock.run(new Acquirer({ ...options, triesBeforeJoin }, pool).tryNow());
    return [won, did(pool.deeds)];
  };
  assert.deepEqual(await tryNow({ freeAtMs: [NEVER, NEVER], hasLine: true }, 1), [undefined, 'claim claim']);
  assert.deepEqual(await tryNow({ freeAtMs: [0] }, 0), ['0', 'join claim leave']);
  assert.deepEqual(await tryNow({ freeAtMs: [0], hasLine: true }, 0), [undefined, 'join hear leave']);
  const words = [{ atMs: 50, word: 0 }];
  assert.deepEqual(await tryNow({ freeAtMs: [0], hasLine: true, words }, 0), ['0', 'join hear claim served leave']);
});

test('tryOnce tries each slot once, and lines up nowhere', async () => {
  const pool = new FakePool({ freeAtMs: [NEVER, NEVER, NEVER] });
  const { slots } = pool;
  const options = { slots, recheckAfterMs: 1, deadlineMs: NEVER, firstTries: 1, triesBeforeJoin: 0, triesPerRound: 1 };
  assert.equal(await pool.clock.run(new Acquirer(options, pool).tryOnce()), undefined);
  assert.deepEqual(
    claims(pool.deeds)
      .map(({ slot }) => slot)
      .sort(),
    slots,
  );
  assert.equal(pool.deeds.length, 3);
});

const anyScript = fc
  .record({
    freeAtMs: fc.array(fc.oneof(fc.constant(NEVER), fc.nat(120_000)), { minLength: 1, maxLength: 12 }),
    hasLine: fc.boolean(),
    queueDiesAtMs: fc.oneof(fc.constant(NEVER), fc.nat(60_000)),
    words: fc.array(
      fc.record({
        atMs: fc.nat(100_000),
        word: fc.oneof(fc.nat(14), fc.constantFrom('full' as const, 'waiting' as const)),
      }),
      { maxLength: 12 },
    ),
    failingClaim: fc.option(fc.nat(20), { nil: undefined }),
  })
  .map((script): PoolScript => script);

const anyOptions = fc.record({
  deadlineMs: fc.nat(150_000),
  firstTries: fc.nat(3),
  triesBeforeJoin: fc.constantFrom(0, 1, NEVER),
  triesPerRound: fc.integer({ min: 1, max: 6 }),
});

test('whatever the pool and the queue do, the invariants hold', async () => {
  await fc.assert(
    fc.asyncProperty(anyScript, anyOptions, fc.nat(1_000_000), async (script, options, seed) => {
      const { won, pool, deeds, endedMs } = await acquire(script, options, seed);
      const tries = ownTries(deeds);
      const isStrict = options.triesBeforeJoin === 0;

      // A1
      for (const [index, { atMs, slot, offer }] of claims(deeds).entries()) {
        assert.ok(index === 0 || atMs >= (claims(deeds)[index - 1]?.untilMs ?? NEVER), 'one claim at a time');
        assert.ok(offer ? offer.slot === slot : pool.slots.includes(slot));
      }
      const wins = claims(deeds).filter((claim) => claim.won);
      assert.deepEqual(
        wins.map(({ slot }) => slot),
        claims(deeds)
          .slice(-1)
          .flatMap((last) => (last.won ? [won] : [])),
      );

      // A3 and A4
      assert.equal(did(deeds).indexOf('leave'), did(deeds).length - 'leave'.length);
      let open = 0;
      for (const deed of deeds) {
        if (deed.did === 'hear' && typeof deed.word === 'object') open++;
        if (deed.did === 'missed' || deed.did === 'served') open--;
        assert.ok(open === 0 || open === 1);
      }
      if (open === 1) assert.equal(won, 'cancelled');

      // A2, A5 and A6: what it knows when it tries a slot of its own
      let askedMs = NEVER;
      let inLine = false;
      let mayNewcomer = !isStrict;
      let inRound = 0;
      for (const deed of deeds) {
        if (deed.did === 'join') {
          inLine = script.hasLine ?? false;
          mayNewcomer = !inLine;
        }
        if (deed.did === 'enter') inLine = true;
        if (deed.did === 'ask' && askedMs === NEVER) askedMs = deed.atMs;
        if (deed.did === 'hear') {
          inRound = 0;
          if (deed.word !== undefined) askedMs = NEVER;
        }
        if (deed.did === 'claim' && !deed.offer) {
          if (!inLine) assert.ok(mayNewcomer);
          else {
            assert.ok(deed.atMs - askedMs >= 0.75 * RECHECK_MS, 'the queue owes an answer for long');
            assert.ok(++inRound <= options.triesPerRound);
          }
        }
      }
      const window = tries.slice(0, pool.slots.length).map(({ slot }) => slot);
      assert.equal(new Set(window).size, window.length, 'no slot twice before all others');
      for (const [index, { slot }] of tries.entries()) {
        if (index >= pool.slots.length) assert.equal(slot, tries[index - pool.slots.length]?.slot);
      }

      // A7
      for (const { atMs } of tries.slice(1)) assert.ok(atMs < options.deadlineMs);
      assert.ok(endedMs <= options.deadlineMs + 25 || wins.length > 0 || won === 'cancelled', `ended at ${endedMs}`);
      if (won === undefined) assert.ok(endedMs >= options.deadlineMs);
    }),
    { numRuns: 300 },
  );
});

test('a queue that is stuck from the start: a free slot is found in one rotation, at once if it is short', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 40 }),
      fc.nat(1_000),
      fc.nat(30_000),
      fc.integer({ min: 1, max: 6 }),
      fc.boolean(),
      fc.nat(1_000_000),
      async (count, pick, freeMs, triesPerRound, hasLine, seed) => {
        const freeAtMs = Array.from({ length: count }, (_, slot) => (slot === pick % count ? freeMs : NEVER));
        const script = { freeAtMs, hasLine, queueDiesAtMs: 0 };
        const { won, endedMs, deeds } = await acquire(
          script,
          { triesPerRound, triesBeforeJoin: hasLine ? 0 : 1 },
          seed,
        );
        assert.equal(won, String(pick % count));
        const rounds = Math.ceil(count / triesPerRound);
        const triesSince = ownTries(deeds).filter(({ atMs }) => atMs >= freeMs);
        assert.ok(triesSince.length <= count, `${triesSince.length} tries of ${count} slots since it was free`);
        const mostMs = 2 * RECHECK_MS + rounds * (RECHECK_MS + triesPerRound * 10);
        if (rounds <= 3 && freeMs <= RECHECK_MS) assert.ok(endedMs <= mostMs, `${endedMs} of ${mostMs}`);
      },
    ),
    { numRuns: 200 },
  );
});

test('where the line is full, or a later one has its place, an acquirer with a bound gives up at once, and leaves the line (A4)', async () => {
  for (const word of ['full', 'superseded'] as const) {
    const pool = new FakePool({ freeAtMs: [NEVER], words: [{ atMs: 60, word }] }, 1);
    const options = { slots: pool.slots, recheckAfterMs: RECHECK_MS, deadlineMs: NEVER };
    const acquirer = new Acquirer(
      { ...options, firstTries: 2, triesBeforeJoin: 1, triesPerRound: 5 },
      Object.assign(pool, { full: (isSuperseded: boolean) => (isSuperseded ? 'superseded' : 'full') }),
    );
    assert.equal(await pool.clock.run(acquirer.acquire()), word);
    assert.equal(pool.nowMs(), 60);
    assert.equal(did(pool.deeds), 'claim enter hear leave');
  }
});

test('it tries as many slots as it may, each once, and does not line up', async () => {
  for (const most of [1, 2, 3, 4]) {
    const pool = new FakePool({ freeAtMs: [NEVER, NEVER, NEVER] }, 1);
    const options = { slots: pool.slots, recheckAfterMs: RECHECK_MS, deadlineMs: NEVER };
    const acquirer = new Acquirer({ ...options, firstTries: 2, triesBeforeJoin: 1, triesPerRound: 5 }, pool);
    assert.equal(await pool.clock.run(acquirer.tryOnce(most)), undefined);
    const tried = claims(pool.deeds).map((deed) => deed.slot);
    assert.equal(tried.length, Math.min(most, 3));
    assert.equal(new Set(tried).size, tried.length);
    assert.equal(pool.deeds.length, tried.length);
  }
});

const TURN = { queueId: 'permit-queue:pool', ticketId: 't', slot: '0' };

const offers = (slot: string, slots: number | string[], capacity?: number) =>
  offersSlot({ ...TURN, slot, capacity }, slots);

/** Whether a waiter of these slots may claim the slot of a turn that is read; `undefined`: it is read as none. */
const misled = (forge: ForgedTurn, slots: number | string[]) => {
  const turn = readTurn(forge(TURN));
  return turn && offersSlot(turn, slots);
};

test('counted slots: its own, in canonical form, and those that the turn says were added', () => {
  assert.ok(offers('0', 1));
  for (const [what, forge] of Object.entries(NO_COUNTED_SLOTS)) assert.equal(misled(forge, 1), false, what);
  for (const slot of ['1', '0.0', '1e0', ' 0']) assert.equal(offers(slot, 1), false, slot);
  assert.ok(offers('4', 3, 5));
  assert.equal(offers('5', 3, 5), false);
  for (const slot of ['-1', '03', 'a:b', '']) assert.equal(offers(slot, 3, 5), false);
  assert.ok(offers('999', 3, 1e9));
  assert.equal(offers('1000', 3, 1e9), false, 'no pool has more than 1,000 slots');
  assert.equal(offers('3', 3, -5), false);
});

test('named slots: of its list only, whatever the turn says was added', () => {
  assert.ok(offers('gpu-a', ['gpu-a']));
  for (const [what, forge] of Object.entries(NO_NAMED_SLOTS)) assert.equal(misled(forge, ['gpu-a']), false, what);
  for (const slot of ['0', 'length']) assert.equal(offers(slot, ['gpu-a'], 5), false);
});

test('a turn without a slot offers none', () => {
  assert.equal(offersSlot({ queueId: 'q', ticketId: 't' }, 3), false);
});

test('whatever a turn says, no more slots can be claimed than the larger of the two capacities', () => {
  const anySlot = fc.oneof(fc.string(), fc.integer({ min: -5, max: 1_200 }).map(String));
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      fc.option(fc.integer(), { nil: undefined }),
      anySlot,
      (count, capacity, slot) => {
        const most = Math.min(1_000, Math.max(count, capacity ?? 0));
        assert.equal(offers(slot, count, capacity), slotNames(most).includes(slot));
      },
    ),
  );
});
