import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kindOf, visiblePart } from './page/hold-bar';

test('the colour of a hold says what has become of it', () => {
  assert.equal(kindOf({}), 'held');
  assert.equal(kindOf({ toMs: 1 }), 'released');
  for (const outcome of ['released', 'unknown']) assert.equal(kindOf({ toMs: 1, outcome }), 'released');
  assert.equal(kindOf({ toMs: 1, outcome: 'preempted' }), 'gave-way');
  for (const outcome of ['revoked', 'lease-expired', 'terminated', 'timed-out', 'failed']) {
    assert.equal(kindOf({ toMs: 1, outcome }), 'cut-short');
  }
  assert.equal(kindOf({ drained: true, toMs: 1, outcome: 'terminated' }), 'drained');
});

test('of a hold that began before the window, the label begins with the window; one that goes on ends now', () => {
  const window = { fromMs: 100, toMs: 400 };
  assert.deepEqual(visiblePart({ fromMs: 50, toMs: 200 }, window), { fromMs: 100, toMs: 200, isBegun: true });
  assert.deepEqual(visiblePart({ fromMs: 150, toMs: 200 }, window), { fromMs: 150, toMs: 200, isBegun: false });
  assert.deepEqual(visiblePart({ fromMs: 350 }, window), { fromMs: 350, toMs: 400, isBegun: false });
  assert.equal(visiblePart({ fromMs: 10, toMs: 99 }, window), undefined);
});
