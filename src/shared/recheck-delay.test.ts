import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RecheckDelay } from './recheck-delay';

function answer(delay: RecheckDelay): void {
  delay.asked();
  delay.answered();
}

test('it is recheckAfter at first, and 20 to 25 times that once the queue has answered', () => {
  const delay = new RecheckDelay(30_000);
  const grown = [0, 1, 2].map(() => {
    const ms = delay.nextMs(0);
    answer(delay);
    return ms;
  });
  assert.deepEqual(grown, [30_000, 750_000, 750_000]);
});

test('while an answer is owed it is recheckAfter, however long it had grown and however long that takes', () => {
  const delay = new RecheckDelay(30_000);
  for (let count = 0; count < 3; count++) answer(delay);
  delay.asked();
  assert.ok(delay.isAnswerOwed);
  for (let count = 0; count < 10; count++) assert.equal(delay.nextMs(0), 30_000);
  delay.asked();
  assert.equal(delay.nextMs(0), 30_000);
});

test('an answer to nothing means nothing', () => {
  const delay = new RecheckDelay(100);
  for (let count = 0; count < 5; count++) delay.answered();
  assert.equal(delay.nextMs(0), 100);
});

test('a turn begins anew, and no room is asked about after 1 s to 30 s', () => {
  const delay = new RecheckDelay(100);
  answer(delay);
  delay.hadTurn();
  assert.equal(delay.nextMs(0), 100);
  const full = Array.from({ length: 7 }, () => {
    delay.hadNoRoom();
    return delay.nextMs(0);
  });
  assert.deepEqual(full, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  delay.asked();
  assert.equal(delay.nextMs(0), 100, 'a full queue is alive, and has the usual time for its answer');
  delay.answered();
  delay.hadNoRoom();
  assert.equal(delay.nextMs(0), 1_000, 'there was room in between');
});

test('whatever happens, it is between 1 ms and the longest of the two', () => {
  const steps = fc.array(fc.constantFrom('asked', 'answered', 'hadTurn', 'hadNoRoom' as const), { maxLength: 40 });
  const luck = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100_000 }), steps, luck, (recheckAfterMs, happened, random) => {
      const delay = new RecheckDelay(recheckAfterMs);
      for (const step of happened) {
        delay[step as 'asked']();
        const ms = delay.nextMs(random);
        assert.ok(ms >= 1 && ms <= Math.max(30_000, 25 * recheckAfterMs));
        if (delay.isAnswerOwed) assert.ok(ms <= recheckAfterMs && ms >= Math.floor(0.75 * recheckAfterMs));
      }
    }),
  );
});
