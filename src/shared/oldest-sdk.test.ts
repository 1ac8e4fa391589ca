import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { peerDependencies } from '../../package.json';
import { OLDEST_SDK, refuseOlderSdk } from './oldest-sdk';

test('an SDK older than package.json allows is refused, with its version and what to do', () => {
  for (const [name, range] of Object.entries(peerDependencies)) {
    if (name.startsWith('@temporalio/')) assert.equal(range, `^${OLDEST_SDK}`, name);
  }
  for (const version of ['1.18.2', '1.18.2-rc.1', '1.18.10', '1.24.0', '2.0.0']) refuseOlderSdk(version);
  for (const version of ['1.18.1', '1.17.5', '1.9.3', '0.23.0']) {
    assert.throws(() => refuseOlderSdk(version), {
      message: `temporal-semaphore needs Temporal's SDK 1.18.2 or later, and @temporalio/common is ${version}. Install a newer version of all @temporalio packages.`,
    });
  }
});

/** Entries that load nothing of the SDK. */
const WITHOUT_SDK = ['index.ts', 'fencing.ts', 'not-for-workflows.ts'];

test('an entry that loads the SDK refuses an older one before it loads anything else', () => {
  const src = join(__dirname, '..');
  const entries = readdirSync(src).filter((name) => name.endsWith('.ts') && !WITHOUT_SDK.includes(name));
  assert.ok(entries.includes('client.ts') && entries.includes('workflow.ts'), entries.join(' '));
  for (const entry of entries) {
    const [first] = /^(import|export)\b.*$/m.exec(readFileSync(join(src, entry), 'utf8')) ?? [];
    assert.equal(first, "import './shared/oldest-sdk';", entry);
  }
});
