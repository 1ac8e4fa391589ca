import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { ApplicationFailure } from '@temporalio/client';
import { PermitLostError } from '../../../src/client';
import { permitId } from '../../../src/shared/permit-id';
import { ADOPT, type PermitRef, RENEW, REVOKE } from '../../../src/shared/protocol';
import { failureOf as failed, startOptions, untilAt } from '../../support/holders';
import { signalsOf, untilRenewedAgain } from '../../support/permit-signals';
import { clientOf } from '../../support/sets';
import { assertNoPermitLeft, permitsRunning, until, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

function client(resource: string) {
  return clientOf(temporal, resource);
}

function permitOf({ workflowId, runId }: PermitRef) {
  return temporal.client.workflow.getHandle(workflowId, runId);
}

async function startAdopter(ref: PermitRef, renewEvery?: number) {
  const handle = await temporal.client.workflow.start(workflows.adopter, {
    ...startOptions(temporal, 'adopter'),
    args: [ref, renewEvery],
  });
  await untilAt(handle, 'holding');
  return handle;
}

async function failureOf(result: Promise<unknown>): Promise<ApplicationFailure> {
  return (await failed(result)) as ApplicationFailure;
}

test('a permit that was handed over ends with its lease, although its first holder goes on in withPermit', {
  timeout: 60_000,
}, async () => {
  const resource = temporal.resource();
  const leaver = await temporal.client.workflow.start(workflows.busyLeaver, {
    ...startOptions(temporal, 'leaver'),
    args: [{ resource, semaphore: { capacity: 1, lease: '2s', renewEvery: '300ms' } }],
  });
  await until(async () => (await permitsRunning(temporal.client, resource)).length === 1);
  const workflowId = permitId({ resource, slot: '0' });
  const permit = temporal.client.workflow.getHandle(workflowId);
  assert.equal(await permit.result(), 'lease-expired');
  assert.ok(!(await signalsOf(temporal, { workflowId })).includes(RENEW));
  await leaver.signal(workflows.finish);
  await leaver.result();
});

test('one permit is held through three runs of a Workflow', async () => {
  const resource = temporal.resource();
  const runId = await temporal.client.workflow.execute(workflows.relay, {
    ...startOptions(temporal, 'relay'),
    args: [{ resource, semaphore: { capacity: 1 } }, 3],
  });
  const permit = permitOf({ workflowId: permitId({ resource, slot: '0' }), runId } as PermitRef);
  assert.equal(await permit.result(), 'released');
  await assertNoPermitLeft(temporal.client, resource);
  let permits = 0;
  for await (const run of temporal.client.workflow.list({ query: `WorkflowId = "permit:${resource}:0"` })) {
    assert.equal(run.runId, runId);
    permits++;
  }
  assert.equal(permits, 1);
});

test('one permit is held through three runs by withPermit alone, and released by the last', async () => {
  const resource = temporal.resource();
  const handle = await temporal.client.workflow.start(workflows.epochs, {
    ...startOptions(temporal, 'epochs'),
    args: [{ resource, semaphore: { capacity: 1 } }, 3],
  });
  const runId = await handle.result();
  const runs = temporal.client.workflow.getHandle(handle.workflowId);
  assert.notEqual((await runs.describe()).runId, handle.firstExecutionRunId);
  const permit = await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).describe();
  assert.deepEqual([permit.runId, permit.status.name], [runId, 'COMPLETED'], 'there was no other');
  const signals = await signalsOf(temporal, permit);
  assert.equal(signals.filter((name) => name === ADOPT).length, 2);
  assert.equal(await permitOf(permit as unknown as PermitRef).result(), 'released');
});

test('a permit is handed over out of withPermit, and stays renewed', async () => {
  const resource = temporal.resource();
  const { workflowId } = await temporal.client.workflow.start(workflows.relayInside, {
    ...startOptions(temporal, 'relay'),
    args: [{ resource, semaphore: { capacity: 1 } }, undefined, 300],
  });
  const handle = temporal.client.workflow.getHandle<typeof workflows.relayInside>(workflowId);
  await untilAt(handle, 'holding');
  const permitRun = await untilRenewedAgain(temporal, resource);
  const permit = await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).describe();
  const { runId, type } = await handle.describe();
  assert.deepEqual(permit.memo?.holder, { workflowId, runId, workflowType: type }, 'the memo names who holds it now');
  await handle.signal(workflows.finish);
  assert.deepEqual(await handle.result(), { at: 'done', slot: '0', runId: permitRun });
});

test("a client's permit is handed to a Workflow, which renews and releases it", async () => {
  const resource = temporal.resource();
  const permit = await client(resource).acquire();
  const ref: PermitRef = JSON.parse(JSON.stringify(permit.detach()));
  const handle = await startAdopter(ref, 300);
  await permit.release();
  await untilRenewedAgain(temporal, resource); // so the client has not released it
  assert.equal(permit.signal.aborted, false);
  await assert.rejects(permit.renew(), PermitLostError);
  await handle.signal(workflows.finish);
  assert.deepEqual(await handle.result(), { at: 'done', slot: '0', runId: permit.runId });
  assert.equal(await permitOf(ref).result(), 'released');
});

test('the release of an adopted permit resolves when its slot is free, not when the permit says that it ends', async () => {
  const resource = temporal.resource();
  const workflowId = permitId({ resource, slot: '0' });
  const { taskQueue } = temporal;
  const permit = await temporal.client.workflow.start(workflows.slowlyEndingPermit, { workflowId, taskQueue });
  const ref = { resource, slot: '0', workflowId, runId: permit.firstExecutionRunId, leaseMs: 60_000 };
  const options = { ...startOptions(temporal, 'adopter'), args: [ref] as [PermitRef] };
  assert.equal(await temporal.client.workflow.execute(workflows.adoptAndRelease, options), true);
});

test("a Workflow's permit is handed to a client", async () => {
  const resource = temporal.resource();
  const ref = await temporal.client.workflow.execute(workflows.leaver, {
    ...startOptions(temporal, 'leaver'),
    args: [{ resource, semaphore: { capacity: 1 } }],
  });
  const permit = await clientOf(temporal, resource, { renewEvery: '300ms' }).adopt(ref);
  await untilRenewedAgain(temporal, resource);
  assert.equal(permit.signal.aborted, false);
  await permit.release();
  assert.equal(await permitOf(ref).result(), 'released');
  await assert.rejects(client(resource).adopt(ref), PermitLostError);
});

test('a permit that may be taken is handed over at once', { timeout: 60_000 }, async () => {
  const resource = temporal.resource();
  const ref = await temporal.client.workflow.execute(workflows.preemptibleLeaver, {
    ...startOptions(temporal, 'leaver'),
    args: [{ resource, semaphore: { capacity: 1, lease: '2 minutes' } }],
  });
  assert.equal((await permitOf(ref).describe()).status.name, 'RUNNING');
  await (await client(resource).adopt(ref)).release();
});

test('whatever a stranger says of its end, an adopter fails as one that has lost its permit', {
  timeout: 60_000,
}, async () => {
  const resource = temporal.resource();
  const ref = (await client(resource).acquire()).detach();
  const handle = await startAdopter(ref);
  const unconvertible = { toString: 0, valueOf: 0 };
  for (const runId of [unconvertible, 'a', ref.runId]) {
    await handle.signal('permit-revoked', { runId, reason: unconvertible });
    await handle.signal('permit-ended', { runId, reason: unconvertible, outcome: unconvertible });
  }
  const failure = await failureOf(handle.result());
  assert.deepEqual(failure.details, [{ resource, slot: '0', runId: ref.runId, how: 'unknown' }]);
});

test('a Workflow is told of the loss of a permit that it adopted', async () => {
  const resource = temporal.resource();
  const ref = (await client(resource).acquire()).detach();
  const handle = await startAdopter(ref);
  await permitOf(ref).signal(REVOKE, { reason: 'node drain' });
  const failure = await failureOf(handle.result());
  assert.equal(failure.type, 'PermitLostError');
  assert.deepEqual(failure.details, [{ resource, slot: '0', runId: ref.runId, how: 'revoked', reason: 'node drain' }]);
});

test('a Workflow finds by its next renewal that a permit it adopted was terminated, even if its slot has another holder', async () => {
  const resource = temporal.resource();
  const ref = (await client(resource).acquire()).detach();
  const handle = await startAdopter(ref, 300);
  await permitOf(ref).terminate();
  const next = await client(resource).acquire();
  assert.match(
    (await failureOf(handle.result())).message,
    /it no longer runs, or never did, and how it ended is unknown/,
  );
  await next.release();
});

test('what has ended, and what is no reference, is not adopted', async () => {
  const resource = temporal.resource();
  const permit = await client(resource).acquire();
  await permit.release();
  const adopt = async (ref: PermitRef) =>
    await failureOf(
      temporal.client.workflow.execute(workflows.adopter, { ...startOptions(temporal, 'adopter'), args: [ref] }),
    );
  assert.equal((await adopt(permit.ref())).type, 'PermitLostError');
  const never = { ...permit.ref(), runId: randomUUID() };
  assert.match((await adopt(never)).message, /it no longer runs, or never did/);
  await assert.rejects(client(resource).adopt(permit.ref()), /it was released or cancelled/);
  await assert.rejects(client(resource).adopt(never), /the server has no such run: it never existed, or was deleted/);
  const bad = await adopt({ ...permit.ref(), workflowId: 'something-else' });
  assert.match(bad.message, /ref\.workflowId: expected "permit:/);
  for (const [wrong, message] of [
    [{ runId: 'undefined' }, /ref\.runId: expected a run ID, which is a UUID/],
    [{ runId: '\ud800' }, /ref\.runId: expected a run ID, which is a UUID/],
    [{ leaseMs: '30000' }, /ref\.leaseMs: expected a number of milliseconds above 0/],
  ] as const) {
    const ref = { ...permit.ref(), ...wrong } as PermitRef;
    await assert.rejects(client(resource).adopt(ref), message);
    assert.match((await adopt(ref)).message, message);
  }
});

test('a permit that ends with its Workflow has no reference', async () => {
  const resource = temporal.resource();
  const refused = temporal.client.workflow.execute(workflows.noLeaver, {
    ...startOptions(temporal, 'leaver'),
    args: [{ resource, semaphore: { capacity: 1 } }],
  });
  assert.match(
    (await failureOf(refused)).message,
    /This permit can't be handed over: .* acquired with outlivesRun: true/,
  );
});

test('an adopter hears that its permit is wanted: a Workflow by a signal, a client as before', async () => {
  const resource = temporal.resource();
  const low = { priority: { priorityKey: 4 }, preemptible: { grace: '5 minutes' } } as const;
  const high = { priority: { priorityKey: 1 }, preempt: true } as const;
  const lamp = clientOf(temporal, resource, { capacity: 2, lease: '10 minutes' });
  const [one, other] = [(await lamp.acquire(low)).detach(), (await lamp.acquire(low)).detach()];
  const adopter = await startAdopter(one);
  const adopted = await lamp.adopt(other);
  const alarms = [lamp.acquire(high), lamp.acquire(high)];
  await adopted.preempted;
  await assert.rejects(adopter.result());
  assert.equal((await adopter.query(workflows.stage)).at, 'holding', 'it was cancelled, and has stopped by itself');
  await assert.rejects(
    adopted.checkpoint(),
    /^InvalidOptionsError: This permit can't yield: an adopted permit, or a permit of a set or of a key, can't rejoin the queue\.$/,
  );
  await adopted.release();
  for (const alarm of await Promise.all(alarms)) await alarm.release();
});
