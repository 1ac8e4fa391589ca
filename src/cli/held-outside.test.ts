import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Client } from '@temporalio/client';
import { SelfDeadlockError } from '../client';
import { checkSelfDeadlock, heldInside, ownWaits } from './held-outside';

const client = {
  connection: { options: { address: 'here:7233' } },
  options: { namespace: 'default' },
} as unknown as Client;
const gpu = { resource: 'gpu', capacity: 1 };

const VARIABLE = 'TEMPORAL_SEMAPHORE_HELD';
afterEach(() => {
  delete process.env[VARIABLE];
});

/** What the command of a `run` in that process finds in its environment. */
function heldBy(pid: number): string {
  const [held] = Object.values(heldInside(client, [gpu]));
  return held?.replaceAll(`"by":${process.pid}`, `"by":${pid}`) ?? assert.fail();
}

test('what a run around this one holds counts, and what another one holds or held does not', () => {
  const [inside, daemon] = [heldBy(process.ppid), heldBy(2 ** 30)];
  process.env[VARIABLE] = inside;
  assert.throws(() => checkSelfDeadlock(client, [gpu]), SelfDeadlockError);
  assert.deepEqual(ownWaits(client, [{ ...gpu, permits: 2 }]), [{ resource: 'gpu', own: 1, capacity: 1 }]);
  assert.deepEqual(ownWaits(client, [{ ...gpu, capacity: 2 }]), []);
  process.env[VARIABLE] = daemon; // its run has ended, or runs beside it
  if (process.platform === 'linux') checkSelfDeadlock(client, [gpu]);
});

test('whatever else stands in the variable is not ours', () => {
  for (const forged of ['', 'x', 'null', '5', '{}', '[null]', '[{"at":5,"resource":"gpu"}]', '['.repeat(20_000)]) {
    process.env[VARIABLE] = forged;
    checkSelfDeadlock(client, [gpu]);
  }
});
