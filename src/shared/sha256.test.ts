import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { sha256 } from './sha256';

test('SHA-256 is that of Node, for any bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      assert.equal(sha256(bytes), createHash('sha256').update(bytes).digest('hex'));
    }),
  );
});
