import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SemaphoreClient } from '../../src/client';
import { StaleOverrideError } from '../../src/operator';
import { operatorOf } from '../support/operators';
import { useTemporal } from '../support/temporal';

// As server 1.25 is by default.
const temporal = useTemporal({ dynamicConfig: ['frontend.enableExecuteMultiOperation=false'] });

test('a server that does not start and update in one call takes orders, with and without a queue', async () => {
  const { client, taskQueue } = temporal;
  const operator = operatorOf(new SemaphoreClient(client, temporal.resource(), { capacity: 3, taskQueue }));
  const paused = await operator.pause({ reason: 'first' });
  assert.deepEqual([paused.paused, paused.reason], [true, 'first']);
  const resized = await operator.resize(2);
  assert.deepEqual([resized.capacity, resized.version > paused.version], [2, true]);
  await assert.rejects(operator.resume({ ifVersion: paused.version }), StaleOverrideError);
  await operator.resume();
  await operator.resize(3);
});
