import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turnover } from './turnover';

/** How many permits go back. */
function given(shares: number[], holding: number, releasing = 0): number {
  const turnover = new Turnover(1_000);
  turnover.asked(0);
  turnover.answered({ shares, isInUse: () => true }, holding, releasing);
  let count = 0;
  while (turnover.takeDue()) count++;
  return count;
}

for (const [what, shares, holding, releasing, expected] of [
  ['nobody waits', [], 5, 0, 0],
  ['acquirers of one permit get one each', [0, 0, 0], 5, 0, 3],
  ['… and no more than there are', [0, 0, 0], 2, 0, 2],
  ['pools that have as many get none', [6, 7], 5, 0, 0],
  ['a pool that has none gets its half', [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 10, 0, 5],
  ['of three, one goes to and fro', [2], 2, 0, 1],
  ['… and does not come back before it is due', [3], 1, 0, 0],
  ['a single permit goes to and fro', [1], 1, 0, 1],
  ['one caller beside a thousand gets its one', [1], 10, 0, 1],
  ['those under way count', [0, 0], 4, 2, 0],
  ['… for pools too', [1, 2], 3, 1, 1],
] as const) {
  test(`how many go back: ${what}`, () => assert.equal(given([...shares], holding, releasing), expected));
}

test('nobody answers: nothing goes back, and what was known before is forgotten', () => {
  const turnover = new Turnover(1_000);
  turnover.asked(0);
  turnover.answered({ shares: [0, 0], isInUse: () => true }, 5, 0);
  turnover.asked(1_000);
  turnover.answered(undefined, 5, 0);
  assert.equal(turnover.takeDue(), false);
});

test('a look is due once each reuseFor, from shortly before a permit is ripe', () => {
  const turnover = new Turnover(1_000);
  assert.equal(turnover.isLookDue(0, 799), false);
  assert.equal(turnover.isLookDue(0, 800), true);
  assert.equal(turnover.isRipe(0, 999), false);
  assert.equal(turnover.isRipe(0, 1_000), true);
  turnover.asked(800);
  assert.equal(turnover.isLookDue(0, 5_000), false, 'one at a time');
  turnover.answered({ shares: [], isInUse: () => true }, 1, 0);
  assert.equal(turnover.isLookDue(0, 1_799), false);
  assert.equal(turnover.isLookDue(0, 1_800), true);
  assert.equal(turnover.isStale(2_050), false);
  assert.equal(turnover.isStale(2_051), true);
});
