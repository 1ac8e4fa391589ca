import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { PREEMPT, QUEUE_VIEW, QUEUE_WORKFLOW, type QueueView } from '../../../src/shared/protocol';
import { assertFails, startHolder, startHolding, startOptions, untilAt } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { signalsOf } from '../../support/permit-signals';
import { startPreemptible, stepsOf, untilStep } from '../../support/preemptible-holders';
import { clientOf } from '../../support/sets';
import { assertSafe, endQueue, eventually, permitsRunning, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// The queue's and the permit's part of pre-emption, and what only Workflows have. What holders of both sides are promised is in
// contract/preemption.slow.test.ts.

const temporal = useTemporal({ shared: true });

/** A grace that no test waits for. */
const GRACE_MS = 300_000;
const LOW = { priority: { priorityKey: 4 }, preemptible: { grace: GRACE_MS } } as const;
const HIGH = { priority: { priorityKey: 1 }, preempt: true } as const;

async function finish(...handles: Pick<WorkflowHandle, 'signal' | 'result'>[]): Promise<void> {
  for (const handle of handles) {
    await handle.signal(workflows.finish);
    await handle.result();
  }
}

async function viewOf(resource: string): Promise<QueueView> {
  return await temporal.client.workflow.getHandle(queueId(resource)).query<QueueView>(QUEUE_VIEW);
}

test('of several holders the one of the lowest priority gives way, and of equals the youngest; no equal, no other', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 4 };
  const of = (priorityKey: number) => ({ ...LOW, priority: { priorityKey } });
  const { handle: plain } = await startHolding(temporal, {
    resource,
    semaphore,
    acquire: { priority: { priorityKey: 5 } },
  });
  const { handle: old } = await startPreemptible(temporal, { resource, semaphore, acquire: of(4) });
  const { handle: young } = await startPreemptible(temporal, { resource, semaphore, acquire: of(4) });
  const { handle: middle } = await startPreemptible(temporal, { resource, semaphore, acquire: of(3) });
  // It asks, but holders of its own priority are let be; so is a plain one.
  const acquire = { priority: { priorityKey: 3 }, preempt: true };
  const first = await startHolder(temporal, { resource, semaphore, acquire });
  await untilAt(first, 'holding');
  await assertFails(young.result(), 'PermitLostError', /was lost: a waiter of higher priority has asked for it/);
  const second = await startHolder(temporal, { resource, semaphore, acquire });
  await untilAt(second, 'holding');
  await assertFails(old.result(), 'PermitLostError', /was lost: a waiter of higher priority has asked for it/);
  const third = await startHolder(temporal, { resource, semaphore, acquire });
  await untilWaiting(temporal.client, resource, 1);
  // The queue knows of it, and has had its answers: nobody is left that would have to give way.
  await eventually(async () => {
    const { slots } = await viewOf(resource);
    const known = slots.filter(([, state]) => 'answersByMs' in state && state.answersByMs !== undefined);
    assert.equal(known.length, 4, JSON.stringify(slots));
  });
  assert.deepEqual(await stepsOf(middle), ['holds']);
  assert.equal((await untilAt(plain, 'holding')).slot.length, 1);
  await finish(middle, plain, first, second, third);
  await assertSafe(temporal.client, resource, 4);
});

test('a queue that never asks is followed by one that does', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, recheckAfter: 1_000 };
  const { handle: party } = await startPreemptible(temporal, { resource, semaphore, acquire: LOW });
  const silent = await temporal.client.workflow.start(QUEUE_WORKFLOW, {
    workflowId: queueId(resource),
    taskQueue: `nobody-${resource}`,
  });
  const alarm = await startHolder(temporal, { resource, semaphore, acquire: HIGH });
  await eventually(async () => {
    const { events } = await temporal.client.workflow.getHandle(queueId(resource)).fetchHistory();
    const signals = events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length ?? 0;
    assert.ok(signals >= 1, 'the alarm stands in its line');
  });
  assert.deepEqual(await stepsOf(party), ['holds']);
  await silent.terminate();
  await untilAt(alarm, 'holding');
  await assertFails(party.result(), 'PermitLostError', /was lost: a waiter of higher priority has asked for it/);
  await finish(alarm);
  await assertSafe(temporal.client, resource, 1);
});

test('the next queue learns that a holder gives way already, and does not ask another one', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 2, recheckAfter: 1_000 };
  const { handle: one } = await startPreemptible(temporal, { resource, semaphore, acquire: LOW, body: 'stubborn' });
  const { handle: other, ...its } = await startPreemptible(temporal, {
    resource,
    semaphore,
    acquire: LOW,
    body: 'stubborn',
  });
  const alarm = await startHolder(temporal, { resource, semaphore, acquire: HIGH });
  await untilStep(other, 'told'); // the younger one
  await endQueue(temporal.client, resource);
  await untilWaiting(temporal.client, resource, 1);
  await eventually(async () => {
    const { slots } = await viewOf(resource);
    const givesWay = slots.map(([, state]) => ('holder' in state ? state.holder?.untilMs !== undefined : undefined));
    assert.deepEqual(givesWay.sort(), [false, true]);
  });
  const signals = await signalsOf(temporal, { ...its, workflowId: permitId({ resource, slot: its.slot ?? '' }) });
  assert.equal(signals.filter((name) => name === PREEMPT).length, 1, 'it was told once');
  await other.signal(workflows.finish);
  await untilAt(alarm, 'holding');
  assert.deepEqual(await stepsOf(one), ['holds'], 'nobody else was told');
  await finish(one, alarm);
  assert.equal(await other.result(), 'finished', 'it was done within its grace');
  await assertSafe(temporal.client, resource, 2);
});

test('a holder that is terminated in its grace frees its slot at once', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle: party } = await startPreemptible(temporal, { resource, semaphore, acquire: LOW, body: 'stubborn' });
  const alarm = await startHolder(temporal, { resource, semaphore, acquire: HIGH });
  await untilStep(party, 'told');
  // Operators see until when it may stay.
  const { permit } = (await operatorOf(clientOf(temporal, resource)).inspect()).slots[0] ?? {};
  assert.ok(permit?.preemptedUntil && permit.preemptedUntil <= new Date(Date.now() + GRACE_MS));
  assert.equal(permit.workflowId, permitId({ resource, slot: '0' }));
  await party.terminate();
  await untilAt(alarm, 'holding');
  await finish(alarm);
  await assertSafe(temporal.client, resource, 1);
});

test('a permit decides for itself: it does not give way to an equal priority, nor to what makes no sense', async () => {
  const resource = temporal.resource();
  const { handle: party, runId } = await startPreemptible(temporal, {
    resource,
    semaphore: { capacity: 1 },
    acquire: LOW,
  });
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  for (const payload of [
    { priorityKey: 4 },
    { priorityKey: 5 },
    {},
    { priorityKey: 'x' },
    { priorityKey: -1 },
    null,
    5,
  ]) {
    await permit.signal(PREEMPT, payload);
  }
  assert.deepEqual((await permit.describe()).memo?.preemptible, { graceMs: GRACE_MS, priorityKey: 4 });
  assert.deepEqual(await stepsOf(party), ['holds']);
  await permit.signal(PREEMPT, { priorityKey: 3 });
  await untilStep(party, 'told');
  await assertFails(party.result(), 'PermitLostError', /was lost: a waiter of higher priority has asked for it/);
});

test('a permit acquired by hand says so by `preempted`', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const obliging = await temporal.client.workflow.start(workflows.obliging, {
    ...startOptions(temporal),
    args: [{ resource, semaphore, acquire: LOW }],
  });
  await untilStep(obliging, 'holds');
  const { handle: alarm } = await startHolding(temporal, { resource, semaphore, acquire: HIGH });
  assert.equal(await obliging.result(), 'PermitLostError: preempted');
  await finish(alarm);
});

test('bad use is refused before any side effect', async () => {
  const resource = temporal.resource();
  const misuser = await temporal.client.workflow.start(workflows.misuser, {
    ...startOptions(temporal),
    args: [resource],
  });
  const refusals = await misuser.result();
  for (const refusal of refusals) assert.match(refusal, /^InvalidOptionsError: (preempt|preemptible)/);
  assert.equal(refusals.length, 9);
  assert.match(refusals[2] ?? '', /preemptible.grace: expected at most the lease \(30 s\), got "31s"/);
  assert.deepEqual(await permitsRunning(temporal.client, resource), []);
  assert.ok(((await misuser.describe()).historyLength ?? 0) < 8, 'it started nothing');

  const yielder = await temporal.client.workflow.start(workflows.setYielder, {
    ...startOptions(temporal),
    args: [{ resource, semaphore: { capacity: 2 } }],
  });
  assert.match(await yielder.result(), /This permit can't yield/);
});
