import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import type { MetricMeter } from '@temporalio/common';
import fc from 'fast-check';
import { SemaphoreMetrics } from './metrics';
import { resolveAcquire, resolveSemaphore } from './options';
import {
  claimOrder,
  isKeyPool,
  isResource,
  keyResource,
  metricLabel,
  parsePermitId,
  permitId,
  sha256,
  wholeOf,
} from './permit-id';

/** The vectors of docs/protocol.md. */
const VECTORS: [resource: string, key: string, name: string][] = [
  ['openai', 'acme', 'openai~key:acme'],
  ['openai', 'user@acme.com', 'openai~key:user@acme.com'],
  ['openai', 'a/b: c%', 'openai~key:a%2Fb%3A%20c%25'],
  ['openai', '#é', 'openai~key:%23%C3%A9'],
  ['openai', 'x'.repeat(189), `openai~key:${'x'.repeat(189)}`],
  ['openai', 'x'.repeat(190), 'openai~key:#66649f6338ac5e7d0447ccf7002ff5b84c59cae94941867435a50b19e595263b'],
];

test('the vectors of the protocol', () => {
  for (const [resource, key, name] of VECTORS) assert.equal(keyResource(resource, key), name);
});

test('SHA-256 is that of Node, for any bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      assert.equal(sha256(bytes), createHash('sha256').update(bytes).digest('hex'));
    }),
  );
});

test('every key has a pool of its own, whose name the protocol can carry and which says whose it is', () => {
  const resource = fc.constantFrom('openai', 'a', 'a~', 'ä:b', 'x'.repeat(130));
  const key = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 80 }).map((text) => text.normalize('NFC'));
  fc.assert(
    fc.property(resource, key, key, (resource, one, other) => {
      const name = keyResource(resource, one);
      assert.ok(isResource(name), name);
      assert.equal(wholeOf(name), resource);
      assert.equal(name === keyResource(resource, other), one === other);
      assert.deepEqual(parsePermitId(permitId({ resource: name, slot: '0' })), { resource: name, slot: '0' });
      assert.ok(claimOrder(name, resource) < 0);
    }),
  );
});

test('claims have one total order, in which a key comes right before its resource', () => {
  const name = fc
    .tuple(fc.constantFrom('a', 'ab', 'a~', 'b'), fc.option(fc.constantFrom('x', 'y', 'é'), { nil: undefined }))
    .map(([resource, key]) => (key === undefined ? resource : keyResource(resource, key)));
  fc.assert(
    fc.property(name, name, name, (a, b, c) => {
      assert.equal(claimOrder(a, b) < 0, claimOrder(b, a) > 0);
      assert.equal(claimOrder(a, b) === 0, a === b);
      if (claimOrder(a, b) < 0 && claimOrder(b, c) < 0) assert.ok(claimOrder(a, c) < 0);
      // Nothing that is not of its resource comes between a key and its resource.
      if (isKeyPool(a) && claimOrder(a, b) < 0 && claimOrder(b, wholeOf(a)) < 0) assert.equal(wholeOf(b), wholeOf(a));
    }),
  );
});

test('limits that are none, names that are too long, and keys that are none are refused', () => {
  const semaphore = (perKey: unknown, resource = 'r') =>
    resolveSemaphore(resource, { capacity: 3, perKey: perKey as number }, { leaseMs: 1_000 });
  for (const perKey of [0, 1.5, 1_001, '2']) assert.throws(() => semaphore(perKey), /perKey: expected a whole number/);
  assert.throws(
    () => semaphore(1, 'x'.repeat(131)),
    /resource: expected at most 130 bytes of UTF-8, because it has keys/,
  );
  assert.ok(semaphore(1, 'x'.repeat(130)));
  for (const key of ['', 7, null])
    assert.throws(() => resolveAcquire(semaphore(1), { key: key as string }), /key: expected/);
  assert.throws(() => resolveAcquire(semaphore(1), { key: 'cafe\u0301' }), /NFC/);
  assert.throws(() => resolveAcquire(semaphore(1), { key: '\ud800' }), /NFC/);
});

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
