import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noticeMsOf } from '../../shared/lease';
import { adoptedRenewalMs } from '../../shared/options';
import { resolveClientSemaphore } from './options';

const BASE = { capacity: 1, taskQueue: 'permits' };

test('a lease so short that it may be over when its answer comes is refused', () => {
  assert.throws(
    () => resolveClientSemaphore('pool', { ...BASE, lease: '99ms' }),
    /lease: expected a duration of 100 ms or more.*got "99ms"/,
  );
  assert.equal(resolveClientSemaphore('pool', { ...BASE, lease: '100ms' }).leaseMs, 100);
});

test('a client ignores what a declared semaphore was before', () => {
  const declared = { ...BASE, before: [{ capacity: 3, renewEvery: '5m' }] } as const;
  assert.deepEqual(resolveClientSemaphore('pool', declared), resolveClientSemaphore('pool', BASE));
});

test("an adopted permit is renewed as its semaphore's are, where that fits the permit's own lease", () => {
  const renewEveryMs = (own: object, leaseMs: number) =>
    adoptedRenewalMs(resolveClientSemaphore('pool', { ...BASE, ...own }), { leaseMs }, noticeMsOf(leaseMs));
  assert.equal(renewEveryMs({ lease: '9s' }, 9_000), 3_000);
  assert.equal(renewEveryMs({ renewEvery: false }, 9_000), false);
  assert.equal(renewEveryMs({ renewEvery: '2s' }, 9_000), 2_000);
  assert.equal(renewEveryMs({ renewEvery: '8100ms' }, 9_000), 3_000, 'it comes after the holder has to stop');
  assert.equal(renewEveryMs({}, 9_000), 3_000, 'a third of 30 s does not fit');
  assert.equal(renewEveryMs({ lease: '1 minute', maxHold: '2 minutes' }, 300_000), 20_000);
});
