import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoffMs } from './backoff';

const policy = fc
  .tuple(fc.integer({ min: 2, max: 10_000 }), fc.integer({ min: 0, max: 1_000_000 }))
  .map(([baseMs, more]) => ({ baseMs, maxMs: baseMs + more }));
const attempt = fc.integer({ min: 0, max: 5_000 });
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('a delay is a whole number between half of the full delay and all of it, also after thousands of tries', () => {
  fc.assert(
    fc.property(attempt, random, policy, (n, r, p) => {
      const full = Math.min(p.maxMs, p.baseMs * 2 ** n);
      const ms = backoffMs(n, r, p);
      assert.ok(Number.isInteger(ms));
      assert.ok(ms >= Math.floor(full / 2) && ms <= Math.ceil(full), `${ms} of ${full}`);
    }),
  );
});

test('with the same luck, a later try waits no shorter', () => {
  fc.assert(fc.property(attempt, random, policy, (n, r, p) => backoffMs(n, r, p) <= backoffMs(n + 1, r, p)));
});

test('it doubles up to the cap', () => {
  const delays = [0, 1, 2, 3, 4].map((n) => backoffMs(n, 1 - Number.EPSILON, { baseMs: 100, maxMs: 1_000 }));
  assert.deepEqual(delays, [100, 200, 400, 800, 1_000]);
});
