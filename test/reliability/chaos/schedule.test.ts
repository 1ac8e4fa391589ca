import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DEPLOY_VERSION } from './deployments';
import { FAULTS } from './faults';
import { planFaults } from './schedule';
import { STRANGERS } from './strangers';
import { PAUSE_WORKFLOW } from './workflow-pauses';

const KINDS = [
  { kind: 'often', weight: 3, lastsMs: [100, 200] },
  { kind: 'seldom', weight: 1, lastsMs: [0, 0] },
] as const;

const plan = (seed: string) => planFaults(KINDS, { seed, durationMs: 60_000, everyMs: 1_000 });

test('a seed repeats its plan, and another has another', () => {
  assert.deepEqual(plan('seed'), plan('seed'));
  assert.notDeepEqual(plan('seed'), plan('other'));
});

test('each round has every kind as often as it weighs', () => {
  const faults = plan('seed');
  assert.ok(faults.length > 45 && faults.length < 75, `${faults.length} faults`);
  for (let start = 0; start + 4 <= faults.length; start += 4) {
    const round = faults.slice(start, start + 4).map(({ kind }) => kind);
    assert.deepEqual(round.sort(), ['often', 'often', 'often', 'seldom']);
  }
});

test('faults come in order, within the time, and last as long as they may', () => {
  const faults = plan('seed');
  assert.deepEqual(
    faults.map(({ atMs }) => atMs),
    faults.map(({ atMs }) => atMs).sort((a, b) => a - b),
  );
  for (const { atMs, kind, lastsMs } of faults) {
    assert.ok(atMs >= 0 && atMs < 60_000);
    assert.ok(kind === 'often' ? lastsMs >= 100 && lastsMs <= 200 : lastsMs === 0);
  }
});

test('without any kind there is no fault', () => {
  assert.deepEqual(planFaults([], { seed: 'seed', durationMs: 1_000, everyMs: 10 }), []);
});

test('every kind of fault is another, and the page on reliability tests says what it does', () => {
  const page = readFileSync(join(__dirname, '..', 'README.md'), 'utf8');
  const kinds = [...FAULTS, ...STRANGERS, PAUSE_WORKFLOW, DEPLOY_VERSION].map(({ kind }) => kind);
  assert.equal(new Set(kinds).size, kinds.length);
  assert.deepEqual(
    kinds.filter((kind) => !page.includes(`\`${kind}\``)),
    [],
  );
});
