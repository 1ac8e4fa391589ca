import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OUR_WORKFLOWS } from '../../src/shared/protocol';
import * as workflows from '../../src/workflows';

test('the Workflows to export are all four, by the names that other languages start them by, and nothing else', () => {
  const names = Object.entries(workflows).map(([exported, { name }]) => [exported, name]);
  assert.deepEqual(
    names.sort(),
    [...OUR_WORKFLOWS].sort().map((name) => [name, name]),
  );
});
