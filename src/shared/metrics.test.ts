import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MetricMeter } from '@temporalio/common';
import { keyResource, metricLabel } from './key-names';
import { SemaphoreMetrics } from './metrics';

test('metrics count all keys of a resource under one name, and no waiters of theirs', () => {
  const labels: unknown[] = [];
  const metric = {
    add: (_: number, label: unknown) => labels.push(label),
    record: (_: number, label: unknown) => labels.push(label),
    set: (_: number, label: unknown) => labels.push(label),
  };
  const make = () => metric;
  const meter = { createCounter: make, createHistogram: make, createGauge: make } as unknown as MetricMeter;
  const metrics = new SemaphoreMetrics(meter);
  for (let key = 0; key < 100; key++) {
    const resource = keyResource('openai', `tenant-${key}`);
    metrics.acquire(resource, 'acquired', 1);
    metrics.turnOffered(resource);
    metrics.waiters(resource, 1);
  }
  assert.equal(labels.length, 200);
  assert.deepEqual(
    new Set(labels.map((label) => JSON.stringify(label))),
    new Set(['{"resource":"openai~key","outcome":"acquired"}', '{"resource":"openai~key"}']),
  );
  assert.equal(metricLabel('openai'), 'openai');
});
