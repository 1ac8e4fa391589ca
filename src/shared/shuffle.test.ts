import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { shuffle } from './shuffle';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('a shuffle keeps every item once and leaves its input alone', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer()), fc.infiniteStream(random), (items, luck) => {
      const before = [...items];
      const shuffled = shuffle(items, () => luck.next().value as number);
      assert.deepEqual([...shuffled].sort(), [...items].sort());
      assert.deepEqual(items, before);
    }),
  );
});

test('every order comes up about equally often', () => {
  const counts = new Map<string, number>();
  for (let round = 0; round < 6_000; round++) {
    const order = shuffle(['a', 'b', 'c'], Math.random).join('');
    counts.set(order, (counts.get(order) ?? 0) + 1);
  }
  assert.equal(counts.size, 6);
  for (const [order, count] of counts) assert.ok(count > 800 && count < 1_200, `${order}: ${count} of 6,000`);
});
