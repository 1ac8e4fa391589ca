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
    const ms = delay.nextMs(0, 0);
    answer(delay);
    return ms;
  });
  assert.deepEqual(grown, [30_000, 750_000, 750_000]);
});

test('while an answer is owed it is recheckAfter for a rotation, or three rounds, and then grows with the wait, to 12 hours', () => {
  for (const rotation of [1, 2, 100]) {
    const delay = new RecheckDelay(30_000, rotation);
    delay.asked();
    let nowMs = 0;
    for (let round = 0; round < Math.min(rotation, 3); round++) {
      const ms = delay.nextMs(0, nowMs);
      assert.equal(ms, 30_000);
      nowMs += ms;
    }
    delay.asked();
    assert.equal(delay.nextMs(0, nowMs), 600_000);
    assert.equal(delay.nextMs(0, 1_800_000), 2_700_000);
    assert.equal(delay.nextMs(0, 1e9), 12 * 3_600_000);
    delay.answered();
    delay.asked();
    assert.equal(delay.nextMs(0, 1e9), 30_000, 'it was alive in between');
  }
});

test('of a queue that answers it grows with the wait, to 4 hours', () => {
  const delay = new RecheckDelay(30_000);
  delay.nextMs(0, 0);
  answer(delay);
  assert.equal(delay.nextMs(0, 3_600_000), 3_600_000);
  assert.equal(delay.nextMs(0, 1e9), 4 * 3_600_000);
  delay.hadTurn();
  answer(delay);
  assert.equal(delay.nextMs(0, 1e9), 750_000, 'it has had a turn');
});

test('where the queue was slow to take the ticket, the short delays are 20 times what it took, at most 20 times recheckAfter', () => {
  const delay = new RecheckDelay(30_000, 3);
  for (const [tookMs, expectedMs] of [
    [20, 30_000],
    [1_500, 30_000],
    [3_000, 60_000],
    [13_800, 276_000],
    [3_600_000, 600_000],
  ] as const) {
    delay.linedUp(tookMs);
    assert.equal(delay.nextMs(0, 0), expectedMs);
  }
  const short = new RecheckDelay(100);
  short.linedUp(999);
  assert.equal(short.nextMs(0, 0), 100, 'less than a second is not slow');
  short.linedUp(1_000);
  assert.equal(short.nextMs(0, 0), 2_000);
  delay.asked(20);
  assert.equal(delay.nextMs(0, 0), 600_000, 'for an answer too, however fast it took the question');
  delay.answered();
  assert.equal(delay.nextMs(0, 0), 750_000);
  delay.asked(20);
  assert.equal(delay.nextMs(0, 0), 30_000, 'it is fast again');
});

test('an answer to nothing means nothing', () => {
  const delay = new RecheckDelay(100);
  for (let count = 0; count < 5; count++) delay.answered();
  assert.equal(delay.nextMs(0, 0), 100);
});

test('a turn begins anew, and no room is asked about after 1 s to 30 s', () => {
  const delay = new RecheckDelay(100);
  answer(delay);
  delay.hadTurn();
  assert.equal(delay.nextMs(0, 0), 100);
  const full = Array.from({ length: 7 }, () => {
    delay.hadNoRoom();
    return delay.nextMs(0, 0);
  });
  assert.deepEqual(full, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  delay.asked();
  assert.equal(delay.nextMs(0, 0), 100, 'a full queue is alive, and has the usual time for its answer');
  delay.answered();
  delay.hadNoRoom();
  assert.equal(delay.nextMs(0, 0), 1_000, 'there was room in between');
});

test('whatever happens, it is between 1 ms and the longest of the two', () => {
  const steps = fc.array(fc.constantFrom('asked', 'answered', 'hadTurn', 'hadNoRoom' as const), { maxLength: 40 });
  const luck = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100_000 }), steps, luck, (recheckAfterMs, happened, random) => {
      const delay = new RecheckDelay(recheckAfterMs);
      for (const step of happened) {
        delay[step as 'asked']();
        const ms = delay.nextMs(random, 0);
        assert.ok(ms >= 1 && ms <= Math.max(30_000, 25 * recheckAfterMs));
        if (delay.isAnswerOwed && !delay.isBackedOff) {
          assert.ok(ms <= recheckAfterMs && ms >= Math.floor(0.75 * recheckAfterMs));
        }
      }
    }),
  );
});
