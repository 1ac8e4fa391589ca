import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Inheritance } from './inheritance';

/** A queue in which no caller keeps permits of other resources. */
function line(bestPriority: number) {
  return { bestPriority, inheriting: () => [] };
}

test('a queue answers each queue that asks, even after a hundred others', () => {
  const inheritance = new Inheritance('r');
  const told = (bestPriority: number) =>
    [...inheritance.moves(line(bestPriority), 0)].map((command) => command.do === 'pass-on' && command.to);
  for (let n = 0; n < 150; n++) {
    inheritance.asks(`other-${n}`);
    assert.deepEqual(told(3), [`other-${n}`]);
  }
  for (const known of ['other-0', 'other-149']) {
    inheritance.asks(known);
    assert.deepEqual(told(3), [known], 'it asks again');
  }
  assert.equal(told(2).length, 100, 'the queue reports a higher priority to a hundred others');
});
