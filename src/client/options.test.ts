import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveAdoption, resolveClientSemaphore } from './options';

const BASE = { capacity: 1, taskQueue: 'permits' };

test('a lease so short that it may be over when its answer comes is refused', () => {
  assert.throws(
    () => resolveClientSemaphore('pool', { ...BASE, lease: 99 }),
    /lease: expected at least 100 ms.*got 99/,
  );
  assert.equal(resolveClientSemaphore('pool', { ...BASE, lease: 100 }).leaseMs, 100);
});

test("an adopted permit is renewed as the call says, else as the client does where that fits the permit's lease", () => {
  const renewEveryMs = (own: object, leaseMs: number, given?: number | false) =>
    resolveAdoption('pool', { ...BASE, ...own }, leaseMs, given).renewEveryMs;
  assert.equal(renewEveryMs({}, 9_000), 3_000);
  assert.equal(renewEveryMs({ renewEvery: false }, 9_000), false);
  assert.equal(renewEveryMs({ renewEvery: '2s' }, 9_000), 2_000);
  assert.equal(renewEveryMs({ renewEvery: '2s' }, 9_000, 1_000), 1_000);
  assert.equal(renewEveryMs({ renewEvery: '2s' }, 9_000, false), false);
  assert.equal(renewEveryMs({ renewEvery: '9s' }, 9_000), 3_000, 'it does not fit');
  assert.equal(renewEveryMs({ lease: '1 minute', maxHold: '2 minutes' }, 300_000), 100_000);
});
