import assert from 'node:assert/strict';
import { type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import { keyResource } from '../../src/shared/key-names';
import { permitId, queueId } from '../../src/shared/permit-id';
import { REVOKE } from '../../src/shared/protocol';
import { assertEnds, startHolding } from '../support/drivers';
import { assertReleased } from '../support/holders';
import { untilRenewedAgain } from '../support/permit-signals';
import { clientOf } from '../support/sets';
import { assertNoPermitLeft, eventually, useTemporal } from '../support/temporal';
import { userContract } from '../support/users';

// What a permit is to the code that has it, in a Workflow and in a client alike.

const temporal = useTemporal({ shared: true });

/** Nothing but word of a loss could tell its holder. */
const SILENT = { lease: '1 hour', renewEvery: false } as const;
const RENEWED = { lease: '10 minutes', renewEvery: 300 } as const;

function permitRun(resource: string, slot: string, runId?: string) {
  return temporal.client.workflow.getHandle(permitId({ resource, slot }), runId);
}

/** That it has been released by now, and not only will be. */
async function assertGivenBack(permit: WorkflowHandle): Promise<void> {
  assert.equal((await permit.describe()).status.name, 'COMPLETED');
  await assertReleased(permit);
}

async function assertNeverWas(workflowId: string): Promise<void> {
  await assert.rejects(temporal.client.workflow.getHandle(workflowId).describe(), WorkflowNotFoundError, workflowId);
}

userContract(temporal, "the release of a permit of a key gives the key's own back too", async (_driver, startUser) => {
  const resource = temporal.resource('keyed');
  const user = await startUser('keyed', { resource, semaphore: { capacity: 2, perKey: 1, ...SILENT } });
  const { slot, runId } = await user.holding();
  const own = await permitRun(keyResource(resource, 'acme'), '0').describe();
  assert.equal(own.status.name, 'RUNNING');
  await user.finish();
  assert.equal(await user.end(), false);
  await assertGivenBack(permitRun(resource, slot, runId));
  await assertGivenBack(permitRun(keyResource(resource, 'acme'), '0', own.runId));
});

userContract(temporal, "the loss of the key's own permit is that of the permit", async (driver, startUser) => {
  const resource = temporal.resource('keyed');
  const key = keyResource(resource, 'acme');
  const semaphore = { capacity: 2, perKey: 1, ...SILENT };
  const user = await startUser('keyLoser', { resource, semaphore });
  await user.holding();
  await permitRun(key, '0').terminate();
  assert.deepEqual(await user.end(), {
    name: 'PermitLostError',
    how: 'terminated',
    resource: key,
    isHeld: false,
    renewal: 'PermitLostError',
  });
  await assertNoPermitLeft(temporal.client, resource);

  const { caller } = await startHolding(driver, { resource, semaphore, acquire: { key: 'acme' } });
  const { runId } = await permitRun(key, '0').describe();
  await permitRun(key, '0', runId).terminate();
  await caller.stopped();
  const { details } = await assertEnds(caller, 'PermitLostError', /its Workflow was terminated/);
  assert.deepEqual(details, { resource: key, slot: '0', runId, how: 'terminated' });
});

userContract(temporal, 'a renewal that comes after the release fails, and is no loss', async (_, startUser) => {
  const user = await startUser('releaser', { resource: temporal.resource(), semaphore: { capacity: 1, ...SILENT } });
  for (const outcome of await user.end()) assert.match(outcome, /^PermitLostError: /);
});

userContract(temporal, 'of a reentrant semaphore, code under a permit has that permit again', async (_, startUser) => {
  const resource = temporal.resource();
  const user = await startUser('reentrant', { resource, semaphore: { capacity: 2, reentrant: true } });
  const { slot, runId } = await user.holding();
  const { status, runId: latest } = await permitRun(resource, slot).describe();
  assert.deepEqual([status.name, latest], ['RUNNING', runId], 'the end of what runs inside releases nothing');
  await user.finish();
  const thrown = 'Error: its own';
  assert.deepEqual(await user.end(), { same: [true, true, true], thrown, isHeld: true, token: true });
  await assertGivenBack(permitRun(resource, slot, runId));
  assert.equal((await permitRun(resource, slot).describe()).runId, runId, 'there was no other');
  await assertNeverWas(permitId({ resource, slot: String(1 - Number(slot)) }));
  await assertNeverWas(queueId(resource));
});

userContract(temporal, 'with another key, code under a permit gets another permit', async (_driver, startUser) => {
  const resource = temporal.resource('keyed');
  const semaphore = { capacity: 2, perKey: 1, reentrant: true };
  const user = await startUser('reentrantKeys', { resource, semaphore });
  assert.deepEqual(await user.end(), { same: true, other: { isNew: true, same: true, outer: true } });
  for (const key of ['a', 'b']) await assertNoPermitLeft(temporal.client, keyResource(resource, key));
});

userContract(temporal, 'of another semaphore, code that holds all is refused', async (_driver, startUser) => {
  const user = await startUser('selfish', { resource: temporal.resource(), semaphore: { capacity: 1 } });
  assert.match(await user.end(), /^SelfDeadlockError: Deadlock: this caller already holds 1 of the 1 permits of ".*"/);
});

userContract(
  temporal,
  'a permit goes from one withPermit to another, which renews and releases it',
  async (_driver, startUser) => {
    const resource = temporal.resource();
    const user = await startUser('handOver', { resource, semaphore: { capacity: 1, ...RENEWED } });
    const { runId } = await user.holding();
    assert.equal(await untilRenewedAgain(temporal, resource), runId);
    await user.finish();
    assert.deepEqual(await user.end(), { same: true, token: true });
    await assertGivenBack(permitRun(resource, '0', runId));
  },
);

userContract(temporal, 'under a permit that it adopts, withPermit tells of the loss', async (_driver, startUser) => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, ...RENEWED };
  const ref = (await clientOf(temporal, resource, semaphore).acquire()).detach();
  const user = await startUser('adopts', { resource, semaphore }, ref);
  assert.equal((await user.holding()).runId, ref.runId);
  const stranger = await startUser('adopts', { resource: temporal.resource(), semaphore }, ref);
  await assert.rejects(stranger.end(), /ref: expected a permit of/);
  await permitRun(resource, '0', ref.runId).signal(REVOKE, { reason: 'node drain' });
  // A Workflow's function is cancelled; that of a client is waited for.
  await user.finish();
  await assert.rejects(user.end(), /was lost: an operator revoked it \(node drain\)/);
});

userContract(temporal, 'a misspelled option is refused before anything is done', async (_driver, startUser) => {
  const resource = temporal.resource();
  const user = await startUser('misspells', { resource, semaphore: { capacity: 1 } });
  const message = 'InvalidOptionsError: Unknown option "timeOut". Did you mean "timeout"?';
  assert.deepEqual(await user.end(), Array(5).fill(message));
  await assertNeverWas(permitId({ resource, slot: '0' }));
  await assertNeverWas(queueId(resource));
});

userContract(temporal, 'a function may return no promise', async (_driver, startUser) => {
  const resource = temporal.resource();
  const user = await startUser('plain', { resource, semaphore: { capacity: 1 } });
  const { seen, runs } = await user.end();
  assert.deepEqual(seen, [true, true]);
  assert.equal(new Set(runs).size, 2);
  for (const runId of runs) await assertGivenBack(permitRun(resource, '0', runId));
});

userContract(
  temporal,
  'a permit that was given up for a while is the same object, and what it holds then is renewed and released',
  async (driver, startUser) => {
    const resource = temporal.resource();
    const semaphore = { capacity: 1, ...RENEWED };
    const user = await startUser('moves', { resource, semaphore });
    const yielded = await user.holding();
    assert.equal(await untilRenewedAgain(temporal, resource), yielded.runId);
    const acquire = { priority: { priorityKey: 1 }, preempt: true };
    await (await driver.start({ resource, semaphore, acquire, holdMs: 0 })).done();
    const { runId } = await eventually(async () => {
      const held = await user.holding();
      assert.notEqual(held.runId, yielded.runId);
      return held;
    });
    assert.equal(await untilRenewedAgain(temporal, resource), runId);
    await user.finish();
    const { runs, ...rest } = await user.end();
    assert.deepEqual(rest, { tokens: [true, true], isSame: true, isHeld: true });
    assert.deepEqual(runs.slice(1), [yielded.runId, runId]);
    assert.equal(new Set(runs).size, 3);
    for (const run of runs) await assertGivenBack(permitRun(resource, '0', run));
  },
);
