import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Limit, poolOf } from '@/limits/limit';
import { readLimitsFile } from '@/limits/limits-file';
import { keyResource } from '@/shared/key-names';
import { KEYS, type PoolSetup } from './actors/input';
import { limitsText } from './limits-text';
import { Luck } from './random';

const POOLS: PoolSetup[] = [
  { resource: 'steered', slots: { capacity: 3 }, flaky: false },
  { resource: 'keyed', slots: { capacity: 3 }, flaky: false, perKey: 2 },
];

const read = (luck?: Luck) => readLimitsFile(limitsText(POOLS, 7, luck), 'a file');

test('a file by luck is one that can be read, and limits every pool, two keys by name and the third by a default', () => {
  const counts = new Set<Limit['capacity']>();
  for (let seed = 0; seed < 50; seed++) {
    const { version, limits, keyDefaults = [] } = read(new Luck(String(seed)));
    const pools = limits.map(poolOf);
    assert.deepEqual([version, pools.length, keyDefaults.length], [7, 4, 1]);
    assert.ok(POOLS.every(({ resource }) => pools.includes(resource)));
    for (const { capacity } of [...limits, ...keyDefaults]) counts.add(capacity);
  }
  assert.deepEqual([...counts].sort(), [1, 2, 3, 4, 5]);
});

test('without luck, a file takes back whatever another has set', () => {
  const keys = KEYS.map((key): [string, number] => [keyResource('keyed', key), 2]);
  const { limits } = read();
  assert.deepEqual(
    new Map(limits.map((limit) => [poolOf(limit), limit.capacity])),
    new Map([['steered', 3], ['keyed', 3], ...keys]),
  );
  assert.ok(limits.every(({ paused }) => paused === false));
});
