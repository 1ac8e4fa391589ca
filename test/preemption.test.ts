import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { SemaphoreClient } from '../src/client';
import { permitId, queueId } from '../src/shared/permit-id';
import { PREEMPT } from '../src/shared/preemption-protocol';
import { QUEUE_VIEW, type QueueView } from '../src/shared/queue-view';
import { assertFails, startHolder, startHolding, startOptions, strandQueue, untilAt } from './support/holders';
import { startPreemptible, stepsOf, untilStep } from './support/preemptible-holders';
import { assertSafe, endQueue, eventually, permitsRunning, untilWaiting, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

/** A grace that no test waits for. */
const LOW = { priority: { priorityKey: 4 }, preemptible: { grace: '5 minutes' } } as const;
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

test('a holder gives way to a higher priority: its function is told and stops, and it throws PermitPreemptedError', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle: party } = await startPreemptible(temporal, { resource, semaphore, acquire: LOW });
  const { handle: alarm } = await startHolding(temporal, { resource, semaphore, acquire: HIGH });
  await assertFails(party.result(), 'PermitPreemptedError', /a waiter of higher priority has asked for it/);
  assert.deepEqual(await stepsOf(party), ['holds', 'told', 'stopped']);
  await finish(alarm);
  await assertSafe(temporal.client, resource, 1);
});

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
  await assertFails(young.result(), 'PermitPreemptedError', /./);
  const second = await startHolder(temporal, { resource, semaphore, acquire });
  await untilAt(second, 'holding');
  await assertFails(old.result(), 'PermitPreemptedError', /./);
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

test('restart lines up again with the old place, and runs the function anew', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle: party, runId } = await startPreemptible(temporal, {
    resource,
    semaphore,
    acquire: LOW,
    onPreempted: 'restart',
  });
  const later = await startHolder(temporal, { resource, semaphore, acquire: { priority: { priorityKey: 4 } } });
  await untilWaiting(temporal.client, resource, 1);
  const { handle: alarm } = await startHolding(temporal, { resource, semaphore, acquire: HIGH });
  await untilWaiting(temporal.client, resource, 2);
  await finish(alarm);
  const again = await untilStep(party, 'holds', 2); // before the one that came later
  assert.notEqual(again.runId, runId);
  await finish(party);
  await untilAt(later, 'holding');
  await finish(later);
  assert.equal(await party.result(), 'finished');
  await assertSafe(temporal.client, resource, 1);
});

test('replace runs another function under a new permit; a result within the grace counts', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle: party } = await startPreemptible(temporal, {
    resource,
    semaphore,
    acquire: LOW,
    onPreempted: 'replace',
  });
  const { handle: alarm } = await startHolding(temporal, { resource, semaphore, acquire: HIGH });
  await finish(alarm);
  assert.equal(await party.result(), 'replaced');
  assert.deepEqual(await stepsOf(party), ['holds', 'told', 'stopped', 'replaced']);

  const { handle: quick } = await startPreemptible(temporal, { resource, semaphore, acquire: LOW, body: 'finishing' });
  const { handle: second } = await startHolding(temporal, { resource, semaphore, acquire: HIGH });
  assert.equal(await quick.result(), 'returned');
  await finish(second);
  await assertSafe(temporal.client, resource, 1);
});

test('a holder that ignores its grace loses the permit when that is over, also when the queue is terminated meanwhile', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, recheckAfter: 1_000 };
  const acquire = { ...LOW, preemptible: { grace: '3s' } } as const;
  const { handle: party, slot } = await startPreemptible(temporal, { resource, semaphore, acquire, body: 'stubborn' });
  const alarm = await startHolder(temporal, { resource, semaphore, acquire: HIGH });
  await untilStep(party, 'told');
  await endQueue(temporal.client, resource);
  // Operators see until when it may stay.
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  const { permit } = (await pool.inspect()).slots[0] ?? {};
  assert.ok(permit?.preemptedUntil && permit.preemptedUntil <= new Date(Date.now() + 3_000));
  assert.equal(permit.workflowId, permitId({ resource, slot: slot ?? '' }));
  await untilAt(alarm, 'holding');
  await party.signal(workflows.finish); // its work is done only now
  await assertFails(party.result(), 'PermitPreemptedError', /./);
  await finish(alarm);
  await assertSafe(temporal.client, resource, 1);
});

test('a queue that never asks is followed by one that does', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, recheckAfter: 1_000 };
  const { handle: party } = await startPreemptible(temporal, { resource, semaphore, acquire: LOW });
  const endStranded = await strandQueue(temporal, { resource, semaphore }); // it has no worker
  const alarm = await startHolder(temporal, { resource, semaphore, acquire: HIGH });
  await eventually(async () => {
    const { events } = await temporal.client.workflow.getHandle(queueId(resource)).fetchHistory();
    const signals = events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length ?? 0;
    assert.ok(signals >= 2, 'the alarm stands in its line');
  });
  assert.deepEqual(await stepsOf(party), ['holds']);
  await endStranded();
  await untilAt(alarm, 'holding');
  await assertFails(party.result(), 'PermitPreemptedError', /./);
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
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: its.slot ?? '' }), its.runId);
  const { events } = await permit.fetchHistory();
  const signals = events?.flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName ?? []);
  assert.equal(signals?.filter((name) => name === PREEMPT).length, 1, 'it was told once');
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
  await party.terminate();
  await untilAt(alarm, 'holding');
  await finish(alarm);
  await assertSafe(temporal.client, resource, 1);
});

test('a waiter that gives up after it has asked: the holder gives way all the same, and has its place again', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle: party } = await startPreemptible(temporal, {
    resource,
    semaphore,
    acquire: LOW,
    onPreempted: 'restart',
  });
  const alarm = await startHolder(temporal, { resource, semaphore, acquire: HIGH });
  await untilStep(party, 'told');
  await alarm.cancel();
  const again = await untilStep(party, 'holds', 2);
  assert.equal(again.slot, '0');
  await finish(party);
  await assert.rejects(alarm.result());
  await assertSafe(temporal.client, resource, 1);
});

test('at a checkpoint a holder gives its permit up if it is wanted, and goes on under a new one', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const acquire = { ...LOW, preemptible: { grace: '5 minutes', atCheckpoints: true } } as const;
  const { handle: party, runId } = await startPreemptible(temporal, {
    resource,
    semaphore,
    acquire,
    body: 'checkpoints',
  });
  const { handle: alarm } = await startHolding(temporal, { resource, semaphore, acquire: HIGH });
  await finish(alarm);
  const back = await untilStep(party, 'back');
  assert.ok((back.runId ?? '') > (runId ?? ''), 'a new token');
  await finish(party);
  assert.deepEqual(await stepsOf(party), ['holds', 'back']);
  await assertSafe(temporal.client, resource, 1);
});

test('yieldDuring lets others have the slot for as long as the wait takes, and comes back with the old place', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle: yielder } = await startPreemptible(temporal, { resource, semaphore, body: 'yielding' });
  await untilStep(yielder, 'yielded');
  const { handle: guest } = await startHolding(temporal, { resource, semaphore });
  const later = await startHolder(temporal, { resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  await yielder.signal(workflows.finish);
  await untilWaiting(temporal.client, resource, 2);
  await finish(guest);
  await untilStep(yielder, 'back'); // before the one that came later
  assert.equal(await yielder.result(), 'back');
  await untilAt(later, 'holding');
  await finish(later);
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
  assert.deepEqual((await permit.describe()).memo?.preemptible, { graceMs: 300_000, priorityKey: 4 });
  assert.deepEqual(await stepsOf(party), ['holds']);
  await permit.signal(PREEMPT, { priorityKey: 3 });
  await untilStep(party, 'told');
  await assertFails(party.result(), 'PermitPreemptedError', /./);
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
  assert.equal(await obliging.result(), 'PermitPreemptedError');
  await finish(alarm);
});

test('bad use is refused before any side effect', async () => {
  const resource = temporal.resource();
  const misuser = await temporal.client.workflow.start(workflows.misuser, {
    ...startOptions(temporal),
    args: [resource],
  });
  const refusals = await misuser.result();
  for (const refusal of refusals) assert.match(refusal, /^InvalidOptionsError: (preempt|preemptible|onPreempted)/);
  assert.equal(refusals.length, 11);
  assert.match(refusals[2] ?? '', /preemptible.grace: expected at most the lease \(30000 ms\), got 31000/);
  assert.deepEqual(await permitsRunning(temporal.client, resource), []);
  assert.ok(((await misuser.describe()).historyLength ?? 0) < 8, 'it started nothing');

  const yielder = await temporal.client.workflow.start(workflows.setYielder, {
    ...startOptions(temporal),
    args: [{ resource, semaphore: { capacity: 2 } }],
  });
  assert.match(await yielder.result(), /expected one that can line up again/);
});
