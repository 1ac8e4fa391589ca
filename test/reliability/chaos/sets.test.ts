import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChaosRecord } from './record';
import { broken } from './sound-record';

/** Adds a set whose permits started at these times, in the resources' order in the list. */
function withSet(record: ChaosRecord, set: string, actor: string, parts: readonly (readonly [string, number])[]): void {
  for (const [at, [resource, startedMs]] of parts.entries()) {
    const [id, runId] = [at === 0 ? set : `${set}+${at}`, `run-${set}-${at}`];
    const slot = String(record.permits.length);
    record.acquires.push({ id, resource, actor, set, askedMs: 0, settledMs: 9_000, outcome: 'granted' });
    record.bodies.push({ acquire: id, resource, slot, runId, beganMs: 9_000, endedMs: 9_500 });
    record.permits.push({ resource, slot, runId, startedMs, closedMs: 9_600, drained: false });
  }
}

const POOLS = ['a', 'b'].map((resource) => ({ resource, slots: 20 }));

test('S8: a set that claims its resources in another order', () => {
  const claimed = (...parts: [string, number][]) =>
    broken((record) => {
      record.pools.push(...POOLS);
      withSet(record, 'set', 'clients', parts);
    });
  assert.deepEqual(claimed(['a', 1_000], ['b', 2_000], ['b', 2_500]), []);
  assert.deepEqual(claimed(['b', 2_000], ['a', 1_000]), [], 'its caller may name them in any order');
  assert.deepEqual(claimed(['a', 2_000], ['b', 1_000]), ['S8']);
});

test('S8: two sets that each have a part of what they want of one resource', () => {
  const both = (fromMs: number, change: (record: ChaosRecord) => void = () => undefined) =>
    broken((record) => {
      record.pools.push(...POOLS);
      withSet(record, 'one-set', 'clients', [
        ['a', 10_000],
        ['a', 12_000],
      ]);
      withSet(record, 'other-set', 'clients-2', [
        ['a', fromMs],
        ['a', 14_000],
      ]);
      for (const body of record.bodies)
        if (body.resource === 'a') Object.assign(body, { beganMs: 15_000, endedMs: 16_000 });
      for (const permit of record.permits) if (permit.resource === 'a') permit.closedMs = 16_100;
      change(record);
    });
  assert.deepEqual(both(12_100), []);
  assert.deepEqual(both(11_000), ['S8']);
  const stop = (target: string) => ({ kind: 'stop-client', target, atMs: 10_100, healedMs: 10_900 });
  assert.deepEqual(
    both(11_000, ({ faults }) => void faults.push(stop('clients'))),
    [],
    'the first may have lost what allowed it to keep some',
  );
  assert.deepEqual(
    both(11_000, ({ faults }) => void faults.push(stop('clients-3'))),
    ['S8'],
  );
});
