import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accumulatorResource, keyResource } from '../shared/key-names';
import { type Limit, poolOf, withKeysInUse } from './limit';
import { readLimitsFile } from './limits-file';

const FILE = `version: 1
resources:
  openai:
    perKey: { declared: 2, default: 3, keys: { acme: 5 } }
  other: { capacity: 1, perKey: { keys: { acme: 4 } } }
`;

test('a key in use that the file does not name has the default; no other resource has it', () => {
  const file = readLimitsFile(FILE, 'limits.yaml');
  const [acme, globex, long] = ['acme', 'globex/eu', 'x'.repeat(300)].map((key) => keyResource('openai', key));
  assert.ok(acme && globex && long);
  const others = ['openai', 'other', keyResource('other', 'globex'), keyResource('third', 'acme')];
  const accumulators = ['openai', globex].map(accumulatorResource);
  const { limits } = withKeysInUse(file, [acme, globex, long, ...others, ...accumulators]);
  const added: Limit[] = limits.slice(file.limits.length);
  assert.deepEqual(added, [
    { resource: 'openai', capacity: 3, declared: 2, key: 'globex/eu', keyPool: globex },
    { resource: 'openai', capacity: 3, declared: 2, keyPool: long },
  ]);
  assert.deepEqual(added.map(poolOf), [globex, long]);
  assert.deepEqual(withKeysInUse(file, [acme]).limits, file.limits);
});
