import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type HoldInterval, mostAtOnce, overlaps } from '../../scripts/support/holder-intervals';

function hold(slot: string, fromMs: number, toMs: number): HoldInterval {
  return { slot, fromMs, toMs, runId: `run-${slot}-${fromMs}`, holder: `holder-${slot}-${fromMs}` };
}

test('no holds: none at once, no overlap', () => {
  assert.equal(mostAtOnce([]), 0);
  assert.deepEqual(overlaps([]), []);
});

test('a hand-off in the same millisecond is not an overlap', () => {
  const holds = [hold('0', 10, 20), hold('0', 20, 30), hold('0', 0, 10)];
  assert.equal(mostAtOnce(holds), 1);
  assert.deepEqual(overlaps(holds), []);
});

test('two holds of one slot by a tenth of a millisecond are found', () => {
  const [one, other] = [hold('0', 0, 10), hold('0', 9.9, 20)];
  assert.equal(mostAtOnce([other, one]), 2);
  assert.deepEqual(overlaps([other, one]), [[one, other]]);
});

test('a hold that has not ended overlaps every later one of its slot', () => {
  assert.equal(overlaps([hold('0', 0, Number.POSITIVE_INFINITY), hold('0', 1_000_000, 1_000_001)]).length, 1);
});

test('different slots may be held at once, and are counted', () => {
  const holds = [hold('0', 0, 10), hold('1', 5, 15), hold('2', 9, 12), hold('3', 12, 13)];
  assert.equal(mostAtOnce(holds), 3);
  assert.deepEqual(overlaps(holds), []);
});

const anyHolds = fc.array(
  fc
    .tuple(fc.constantFrom('0', '1', '2'), fc.nat(50), fc.integer({ min: 1, max: 20 }))
    .map(([slot, from, length]) => hold(slot, from, from + length)),
  { maxLength: 12 },
);

test('both agree with the plain definition on any holds', async () => {
  await fc.assert(
    fc.property(anyHolds, (holds) => {
      const heldAt = (ms: number) => holds.filter(({ fromMs, toMs }) => fromMs <= ms && ms < toMs);
      assert.equal(mostAtOnce(holds), Math.max(0, ...holds.map(({ fromMs }) => heldAt(fromMs).length)));
      const broken = holds.some((one, index) =>
        holds.slice(index + 1).some((other) => {
          return one.slot === other.slot && one.fromMs < other.toMs && other.fromMs < one.toMs;
        }),
      );
      assert.equal(overlaps(holds).length > 0, broken);
    }),
  );
});
