import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ResolvedSemaphore, resolveSemaphore, resolveSetAcquire, type SemaphoreOptions } from './options';
import { leastPaceMs } from './pace';
import { partsInOrder } from './permit-set';
import { requestOf } from './request';

const CLOUD = 'orders.a1b2c';

const semaphoreOf = (options: Partial<SemaphoreOptions> = {}): ResolvedSemaphore =>
  resolveSemaphore('pool', { capacity: 3, ...options }, { leaseMs: 30_000 });

/** The pace that a permit of the semaphore gets. */
function paceIn(namespace: string, semaphore = semaphoreOf(), isPreemptible = false): number | undefined {
  const preemptible = isPreemptible ? { graceMs: 1_000, priorityKey: 3, atCheckpoints: false } : undefined;
  const { memo } = requestOf(semaphore, { ...resolveSetAcquire(), preemptible }, { sinceMs: 0, namespace });
  assert.equal('paceMs' in memo, memo.paceMs !== undefined, 'a permit without a pace has no field more');
  return memo.paceMs;
}

test('a namespace of Temporal Cloud has the form <name>.<account>', () => {
  for (const namespace of ['orders.a1b2c', 'my-orders-2.f45a2', 'ab.sdvdw', 'orders.a1b2c3']) {
    assert.equal(leastPaceMs(namespace), 1_000, namespace);
  }
  for (const namespace of [
    'default',
    'orders',
    'orders.eu',
    'orders.production',
    'a.b.a1b2c',
    '2nd.a1b2c',
    'Orders.a1b2c',
  ]) {
    assert.equal(leastPaceMs(namespace), undefined, namespace);
  }
});

test('every permit has a pace of a second there, and none elsewhere', () => {
  assert.equal(paceIn('default'), undefined);
  assert.equal(paceIn(CLOUD), 1_000);
  assert.equal(paceIn(CLOUD, semaphoreOf({ pace: { every: '200ms' } })), 1_000);
  assert.equal(paceIn(CLOUD, semaphoreOf({ pace: { every: '1m' } })), 60_000);
  assert.equal(paceIn('default', semaphoreOf({ pace: { every: '200ms' } })), 200);
  assert.equal(paceIn(CLOUD, semaphoreOf({ pace: false })), undefined);
});

test("so have a key's own permit and that of an accumulator, which have no share in the semaphore's own pace", () => {
  const paces = (options: Partial<SemaphoreOptions>, namespace = CLOUD) =>
    partsInOrder([{ semaphore: semaphoreOf({ perKey: 2, ...options }), key: 'x', permits: undefined }], {
      outlivesRun: false,
    })
      .concat(partsInOrder([{ semaphore: semaphoreOf(options), key: undefined, permits: 2 }], { outlivesRun: false }))
      .map(({ semaphore }) => [semaphore.resource, paceIn(namespace, semaphore)]);
  const parts = (key: number | undefined, whole: number | undefined) => [
    ['pool~key:x', key],
    ['pool', whole],
    ['pool~set', key],
    ['pool', whole],
    ['pool', whole],
  ];
  assert.deepEqual(paces({}), parts(1_000, 1_000));
  assert.deepEqual(paces({ pace: { every: '1m' } }), parts(1_000, 60_000));
  assert.deepEqual(paces({ pace: { every: '1m' } }, 'default'), parts(undefined, 60_000));
  assert.deepEqual(paces({ pace: false }), parts(undefined, undefined));
});

test('it is left out where a permit can keep none: of a holder that may have to give way, or that ends too soon', () => {
  assert.equal(paceIn(CLOUD, semaphoreOf(), true), undefined);
  assert.equal(paceIn(CLOUD, semaphoreOf({ lease: '1s', maxHold: '1.9s' })), undefined);
  assert.equal(paceIn(CLOUD, semaphoreOf({ lease: '1s', maxHold: '2s' })), 1_000);
});
