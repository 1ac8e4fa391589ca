import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AdmittedCall, AdmittedCalls } from './admitted-calls';
import type { PooledPermit } from './pooled-permit';

const NOBODY = Number.POSITIVE_INFINITY;
const REUSE_MS = 1_000;

/** The calls by name, each with `[priorityKey, sinceMs]`, and who has been told to give way. */
function admittedCalls(calls: Record<string, [priorityKey: number, sinceMs: number]>) {
  const told: string[] = [];
  const permits = new Map<PooledPermit, string>();
  const byName = new Map<string, AdmittedCall>();
  const admitted = new AdmittedCalls(REUSE_MS);
  for (const [name, [priorityKey, sinceMs]] of Object.entries(calls)) {
    const permit = { slot: name } as PooledPermit;
    permits.set(permit, name);
    const call = { permit, priorityKey, sinceMs, giveWay: () => void told.push(name) };
    byName.set(name, call);
    admitted.add(call, 0);
  }
  const ripe = (...names: string[]) => {
    return (permit: PooledPermit) => names.includes(permits.get(permit) ?? '');
  };
  const gone = (name: string) => admitted.delete(byName.get(name) ?? assert.fail(name));
  return { admitted, told, ripe, gone };
}

for (const [what, { here = NOBODY, elsewhere = [], isOwing = true, isRipe = [] }, expected] of [
  ['nobody waits', {}, []],
  ['one of equal priority waits', { here: 4 }, []],
  ['one waits that outranks all: the last of the least urgent gives way', { here: 1 }, ['late']],
  ['one waits that outranks some: those alone', { here: 3 }, ['late']],
  ['one waits elsewhere, and no permit is ripe', { elsewhere: [1] }, []],
  ['one waits elsewhere: of the ripe the last', { elsewhere: [5, 1], isRipe: ['urgent', 'early'] }, ['early']],
  ['one waits elsewhere, to whom another pool gives', { elsewhere: [1], isOwing: false, isRipe: ['late'] }, []],
] as [string, { here?: number; elsewhere?: number[]; isOwing?: boolean; isRipe?: string[] }, string[]][]) {
  test(`which admitted call gives way when ${what}`, () => {
    const { admitted, told, ripe } = admittedCalls({ urgent: [2, 5], early: [4, 1], late: [4, 9] });
    admitted.looked(elsewhere);
    admitted.makeWay(here, isOwing, ripe(...isRipe));
    assert.deepEqual(told, expected);
  });
}

test('one call gives way at a time, and the next only when it is gone', () => {
  const { admitted, told, ripe, gone } = admittedCalls({ early: [4, 1], late: [4, 9] });
  admitted.makeWay(1, false, ripe());
  admitted.makeWay(1, false, ripe());
  assert.deepEqual(told, ['late']);
  assert.equal(gone('early'), false, 'it had a permit of the whole');
  assert.equal(gone('late'), true);
  admitted.makeWay(1, false, ripe());
  assert.deepEqual(told, ['late'], 'nobody is left');
});

test('the looks at the line elsewhere become ever rarer, and stop while a call gives way, or when none is left', () => {
  const { admitted, ripe, gone } = admittedCalls({ only: [4, 1] });
  const looksMs: number[] = [];
  for (let nowMs = 0; nowMs <= 10_000; nowMs += 100) if (admitted.isLookDue(nowMs)) looksMs.push(nowMs);
  assert.deepEqual(looksMs, [1_000, 2_000, 3_000, 4_000, 5_000, 6_300, 7_900, 9_900]);
  admitted.makeWay(1, false, ripe());
  assert.equal(admitted.isLookDue(1_000_000), false);
  gone('only');
  assert.equal(admitted.dueMs, Number.POSITIVE_INFINITY);
});
