import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as adoptionProtocol from './adoption-protocol';
import * as operatorProtocol from './operator-protocol';
import * as protocol from './protocol';
import { QUEUE_VIEW } from './queue-view';

test('docs/protocol.md has every name of the protocol', () => {
  const page = readFileSync(join(__dirname, '..', '..', 'docs', 'protocol.md'), 'utf8');
  for (const name of [...[protocol, adoptionProtocol, operatorProtocol].flatMap((it) => Object.values(it)), QUEUE_VIEW])
    assert.ok(page.includes(`\`${name}\``), `${name} is missing`);
});
