import assert from 'node:assert/strict';
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
