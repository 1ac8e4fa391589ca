import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selfDeadlockMessage } from './acquire-messages';
import { waitsForItself } from './self-deadlock';

const semaphore = { resource: 'gpus', slots: ['0', '1'] };
const forEver = { timeoutMs: Number.POSITIVE_INFINITY };

test('only a caller that holds all, and would wait for ever, waits for itself', () => {
  assert.equal(waitsForItself(semaphore, forEver, ['gpus', 'gpus']), 2);
  assert.equal(waitsForItself(semaphore, forEver, ['gpus', 'gpus', 'gpus', 'other']), 3);
  assert.equal(waitsForItself(semaphore, forEver, ['gpus', 'other']), 0);
  assert.equal(waitsForItself(semaphore, forEver, ['gpus', 'other'], 2), 1);
  assert.equal(waitsForItself(semaphore, forEver, ['other'], 2), 0);
  assert.equal(waitsForItself(semaphore, { timeoutMs: 1_000 }, ['gpus', 'gpus']), 0);
});

test('the error names each way out', () => {
  assert.match(selfDeadlockMessage('gpus', 2, 2), /Use a permit that it holds, set reentrant, or give a timeout\.$/);
});
