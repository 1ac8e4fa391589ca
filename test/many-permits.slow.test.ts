import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SemaphoreClient } from '../src/client';
import { accumulatorResource } from '../src/shared/key-pool';
import { assertNoPermitLeft, useTemporal } from './support/temporal';

const temporal = useTemporal();

test('a caller of all permits is served while others take one after the other', async () => {
  const resource = temporal.resource('many');
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 3, taskQueue: temporal.taskQueue });
  let isServed = false;
  let small = 0;
  const stream = async () => {
    while (!isServed) {
      await pool.withPermit(async () => await delay(100));
      small++;
    }
  };
  const streams = [0, 1, 2, 3, 4].map(stream);
  await delay(1_000);
  const fromMs = Date.now();
  await pool.withPermits(3, async (permits) => {
    assert.equal(permits.length, 3);
    isServed = true;
  });
  console.log(JSON.stringify({ largeWaitedMs: Date.now() - fromMs, small }));
  await Promise.all(streams);
  for (const left of [resource, accumulatorResource(resource)]) await assertNoPermitLeft(temporal.client, left);
});
