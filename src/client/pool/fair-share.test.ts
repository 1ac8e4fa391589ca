import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairShare, type Stock, type WaitingTicket } from './fair-share';

const ME = 'pool-0';

/** A plain acquirer, or a pool that would hold so many permits. */
const waiting = (nth: number, n: number): WaitingTicket =>
  nth === 0 ? { id: `acquirer-${n}` } : { id: `ticket-${n}`, pool: { id: `pool-${n + 1}`, nth } };

function look(fairShare: FairShare, tickets: WaitingTicket[] | undefined, stock: Partial<Stock> = {}): number {
  fairShare.asked(0);
  fairShare.answered(tickets && { tickets, isInUse: () => true }, {
    holding: 1,
    releasing: 0,
    mayGoRound: true,
    priorityKey: Number.POSITIVE_INFINITY,
    ...stock,
  });
  return fairShare.owed;
}

for (const [what, tickets, stock, expected] of [
  ['nobody waits', [], { holding: 5 }, 0],
  ['acquirers of one permit get one each', [0, 0, 0], { holding: 5 }, 3],
  ['… and no more than there are', [0, 0, 0], { holding: 2 }, 2],
  ['… from the pool that has most', [0, 6], { holding: 4 }, 0],
  ['pools that have as many get none', [6, 7], { holding: 5 }, 0],
  ['of three, one goes to and fro', [2], { holding: 2 }, 1],
  ['… but not before they may go round', [2], { holding: 2, mayGoRound: false }, 0],
  ['… and does not come back before it is due', [3], { holding: 1 }, 0],
  ['a single permit goes to and fro', [1], { holding: 1 }, 1],
  ['one caller beside a thousand gets its one', [1], { holding: 10, mayGoRound: false }, 1],
  ['those under way count', [0, 0], { holding: 4, releasing: 2 }, 0],
  ['… for pools too', [1, 2], { holding: 3, releasing: 1 }, 1],
] as const) {
  test(`how many go back: ${what}`, () =>
    assert.equal(look(new FairShare(1_000, ME), tickets.map(waiting), stock), expected));
}

test('a pool that has none gets its half', () => {
  const tickets = Array.from({ length: 10 }, (_, n) => ({ id: `${n}`, pool: { id: 'other', nth: n + 1 } }));
  assert.equal(look(new FairShare(1_000, ME), tickets, { holding: 10 }), 5);
});

/** Pools that hold one permit each, and wait for a second. */
const POOLS = Array.from({ length: 10 }, (_, n) => `pool-${n}`);
const seconds = (me: string) =>
  POOLS.filter((id) => id !== me).map((id): WaitingTicket => ({ id: `second-of-${id}`, pool: { id, nth: 2 } }));

test('ten pools of one permit each: nobody gives', () => {
  for (const me of POOLS) assert.equal(look(new FairShare(1_000, me), seconds(me)), 0, me);
});

for (const [who, ticket] of [
  ['an acquirer', { id: 'acquirer' }],
  ['a pool without a permit', { id: 'ticket', pool: { id: 'poor', nth: 1 } }],
] as const) {
  test(`${who} beside ten pools of one permit each: one gives, and one more at each look in which it still waits`, () => {
    const shares = POOLS.map((me) => ({ me, fairShare: new FairShare(1_000, me) }));
    for (const expected of [1, 2, 3]) {
      const given = shares.map(({ me, fairShare }) => look(fairShare, [...seconds(me), ticket]));
      assert.equal(
        given.reduce((sum, count) => sum + count, 0),
        expected,
      );
    }
  });
}

test('ten tickets beside ten pools of one permit each: each pool gives one', () => {
  const tickets = Array.from({ length: 10 }, (_, n) => ({ id: `${n}`, pool: { id: `poor-${n}`, nth: 1 } }));
  for (const me of POOLS) assert.equal(look(new FairShare(1_000, me), [...seconds(me), ...tickets]), 1, me);
});

test('one of lower priority than the callers that wait here gets none; one of the same priority, or a higher one, does', () => {
  for (const [priorityKey, expected] of [
    [5, 0],
    [undefined, 0],
    [1, 1],
  ] as const) {
    const found = look(new FairShare(1_000, ME), [{ id: 'acquirer', priorityKey }], { holding: 5, priorityKey: 1 });
    assert.equal(found, expected, `${priorityKey}`);
  }
  assert.equal(
    look(new FairShare(1_000, ME), [{ id: 'acquirer', priorityKey: 5 }], { holding: 5 }),
    1,
    'nobody waits here',
  );
});

test('a pool whose callers come before the one that waits gives none, so another one does', () => {
  const urgent = { id: 'ticket', priorityKey: 1, pool: { id: 'pool-1', nth: 11 } };
  const low = { id: 'acquirer', priorityKey: 4 };
  assert.equal(look(new FairShare(1_000, ME), [urgent, low], { holding: 2, priorityKey: 4 }), 1);
  assert.equal(look(new FairShare(1_000, 'pool-1'), [low], { holding: 10, priorityKey: 1 }), 0);
});

test('nobody answers: nothing goes back, and what was known before is forgotten', () => {
  const fairShare = new FairShare(1_000, ME);
  assert.equal(look(fairShare, [waiting(0, 0), waiting(0, 1)], { holding: 5 }), 2);
  assert.equal(look(fairShare, undefined, { holding: 5 }), 0);
  assert.equal(fairShare.takeDue(), false);
});

test('a look is due once each reuseFor, from shortly before a permit is ripe', () => {
  const fairShare = new FairShare(1_000, ME);
  assert.equal(fairShare.isLookDue(0, 799), false);
  assert.equal(fairShare.isLookDue(0, 800), true);
  assert.equal(fairShare.isRipe(0, 999), false);
  assert.equal(fairShare.isRipe(0, 1_000), true);
  fairShare.asked(800);
  assert.equal(fairShare.isLookDue(0, 5_000), false, 'one at a time');
  fairShare.answered(
    { tickets: [], isInUse: () => true },
    { holding: 1, releasing: 0, mayGoRound: true, priorityKey: 3 },
  );
  assert.equal(fairShare.isLookDue(0, 1_799), false);
  assert.equal(fairShare.isLookDue(0, 1_800), true);
  assert.equal(fairShare.isStale(2_050), false);
  assert.equal(fairShare.isStale(2_051), true);
});
