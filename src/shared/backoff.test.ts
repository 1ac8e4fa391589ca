import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoffMs } from './backoff';

const policy = fc.record({
  baseMs: fc.integer({ min: 2, max: 10_000 }),
  maxMs: fc.integer({ min: 10_000, max: 1_000_000 }),
  factor: fc.double({ min: 1, max: 10, noNaN: true }),
  jitter: fc.double({ min: 0, max: 1, noNaN: true }),
});
const attempt = fc.integer({ min: 0, max: 5_000 });
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('a delay is a whole number of at least 1, between the full delay less its jitter and all of it', () => {
  fc.assert(
    fc.property(attempt, random, policy, (n, r, p) => {
      const full = Math.min(p.maxMs, p.baseMs * p.factor ** n);
      const ms = backoffMs(n, r, p);
      assert.ok(Number.isInteger(ms) && ms >= 1);
      assert.ok(ms >= Math.floor(full * (1 - p.jitter)) && ms <= Math.ceil(full), `${ms} of ${full}`);
    }),
  );
});

test('with the same luck, a later try waits no shorter', () => {
  fc.assert(fc.property(attempt, random, policy, (n, r, p) => backoffMs(n, r, p) <= backoffMs(n + 1, r, p)));
});

test('it grows by its factor up to the cap', () => {
  const slow = { baseMs: 30_000, maxMs: 600_000, factor: 6, jitter: 0.25 };
  assert.deepEqual(
    [0, 1, 2, 3].map((n) => backoffMs(n, 0, slow)),
    [30_000, 180_000, 600_000, 600_000],
  );
});
