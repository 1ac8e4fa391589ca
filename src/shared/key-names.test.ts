import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { claimOrder, isKeyResource, keyResource, wholeOf } from './key-names';
import { isResource, parsePermitId, permitId } from './permit-id';

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

test('every key has a resource of its own, whose name the protocol can carry and which says whose it is', () => {
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
      if (isKeyResource(a) && claimOrder(a, b) < 0 && claimOrder(b, wholeOf(a)) < 0)
        assert.equal(wholeOf(b), wholeOf(a));
    }),
  );
});
