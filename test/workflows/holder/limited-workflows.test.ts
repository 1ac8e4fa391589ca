import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { WorkflowHandle, WorkflowStartOptions } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { permitId } from '../../../src/shared/permit-id';
import { REVOKE } from '../../../src/shared/protocol';
import type { SemaphoreOptions } from '../../../src/workflow';
import { assertFails, assertReleased, startHolder, startHolding, startOptions, untilAt } from '../../support/holders';
import { untilRenewedAgain } from '../../support/permit-signals';
import { assertSafe, eventually, permitsRunning, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// What a limited Workflow has beside what all callers are promised, which test/contract shows.

const temporal = useTemporal({ shared: true });

type Holder = typeof workflows.limitedHolder;

async function start(input: workflows.HolderInput, options: Partial<WorkflowStartOptions<Holder>> = {}) {
  const started = { ...startOptions(temporal, 'limited'), args: [input] as [workflows.HolderInput], ...options };
  return await temporal.client.workflow.start<Holder>('limitedHolder', started as WorkflowStartOptions<Holder>);
}

async function finish(...handles: Pick<WorkflowHandle, 'signal' | 'result'>[]): Promise<void> {
  for (const handle of handles) {
    await handle.signal(workflows.finish);
    await handle.result();
  }
}

/** What Temporal's UI shows of it. */
async function detailsOf(handle: Pick<WorkflowHandle, 'query'>): Promise<string | undefined> {
  return (await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata')).currentDetails;
}

/** Each attempt begins half a second after the one before. */
const RETRY = { initialInterval: 500, backoffCoefficient: 1 };

test('while it waits, its details say for what and since when; a signal that comes meanwhile reaches its function', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const waiting = await start({ resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  const { startTime } = await waiting.describe();
  const [, since = ''] =
    (await detailsOf(waiting))?.match(
      new RegExp(
        `^Waits for a permit of \`${resource}\` since (\\S+Z): \`temporal-semaphore why ${waiting.workflowId}\` shows its place in the queue\\. ` +
          'Its function has not begun\\.$',
      ),
    ) ?? assert.fail(await detailsOf(waiting));
  assert.ok(new Date(since) >= startTime);
  await waiting.signal(workflows.finish);
  await finish(first.handle);
  assert.equal((await waiting.result()).at, 'done');
  await assertSafe(temporal.client, resource, 1);
});

test('while its function runs, its details are its own', async () => {
  const resource = temporal.resource();
  const holding = await start({ resource, semaphore: { capacity: 1, perKey: 1 }, acquire: { key: 'a' } });
  await untilAt(holding, 'holding');
  assert.equal((await detailsOf(holding)) ?? '', '');
  const waiting = await start({ resource, semaphore: { capacity: 1, perKey: 1 }, acquire: { key: 'a' } });
  await eventually(async () => assert.match((await detailsOf(waiting)) ?? '', /` with the key `a` since /));
  await finish(holding, waiting);
});

test('it waits by the priority and the fairness key of its own Workflow', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const priority = { priorityKey: 2, fairnessKey: 'acme', fairnessWeight: 3 };
  const waiting = await start({ resource, semaphore }, { priority });
  const { tickets } = await untilWaiting(temporal.client, resource, 1);
  const [{ priorityKey, fairnessKey, fairnessWeight, waiter } = assert.fail()] = tickets;
  assert.deepEqual({ priorityKey, fairnessKey, fairnessWeight }, priority);
  assert.equal(waiter.workflowId, waiting.workflowId);
  await finish(first.handle, waiting);
});

test('it waits by the priority that its limit says by its arguments, where it says one', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const priority = { priorityKey: 2, fairnessKey: 'acme', fairnessWeight: 3 };
  const waiting = await start({ resource, semaphore, acquire: { priority } }, { priority: { priorityKey: 5 } });
  const { tickets } = await untilWaiting(temporal.client, resource, 1);
  const [{ priorityKey, fairnessKey, fairnessWeight } = assert.fail()] = tickets;
  assert.deepEqual({ priorityKey, fairnessKey, fairnessWeight }, priority);
  await finish(first.handle, waiting);
  const bad = await start({ resource, semaphore, acquire: { priority: { priorityKey: -1 } } });
  await assertFails(bad.result(), 'InvalidOptionsError', /priority\.priorityKey: expected a whole number/);
});

test('one that loses its permit is retried as its policy says, and then waits for another', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { workflowId } = await start({ resource, semaphore }, { retry: RETRY });
  const handle = temporal.client.workflow.getHandle<Holder>(workflowId);
  const { runId } = await untilAt(handle, 'holding');
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  await permit.signal(REVOKE, { reason: 'node drain' });
  await permit.result();
  const again = await eventually(async () => {
    const stage = await untilAt(handle, 'holding');
    assert.notEqual(stage.runId, runId);
    return stage;
  });
  assert.ok(again.runId > runId);
  await finish(handle);
  const once = await start({ resource, semaphore });
  const { runId: last } = await untilAt(once, 'holding');
  await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), last).signal(REVOKE);
  await assertFails(once.result(), 'PermitLostError', /revoked/);
  await assertSafe(temporal.client, resource, 1);
});

test('one that a newer run has superseded is not retried: its next attempt would be the newest', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, fair: true };
  const acquire = { maxWaiting: 1, whenFull: 'drop-oldest' } as const;
  const first = await startHolding(temporal, { resource, semaphore });
  const older = await start({ resource, semaphore, acquire }, { retry: RETRY });
  await untilWaiting(temporal.client, resource, 1);
  const newer = await start({ resource, semaphore, acquire }, { retry: RETRY });
  await assertFails(older.result(), 'LineFullError', /A later caller has taken this one's place/);
  await finish(first.handle, newer);
  await assertSafe(temporal.client, resource, 1);
});

test('one that may be pre-empted gives way to a higher priority, and its next attempt waits behind it', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const low = { priority: { priorityKey: 4 }, preemptible: { grace: '5 minutes' } } as const;
  const { workflowId } = await start({ resource, semaphore, acquire: low }, { retry: RETRY });
  const handle = temporal.client.workflow.getHandle<Holder>(workflowId);
  await untilAt(handle, 'holding');
  const alarm = await start({
    resource,
    semaphore,
    acquire: { priority: { priorityKey: 1 }, preempt: true },
  });
  await untilAt(alarm, 'holding');
  await untilWaiting(temporal.client, resource, 1);
  await finish(alarm);
  await untilAt(handle, 'holding');
  await finish(handle);
  await assertSafe(temporal.client, resource, 1);
});

test('continued as new, it gives its permit back, and the next run stands behind those who wait', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { workflowId } = await start({ resource, semaphore, ending: 'continue-as-new' });
  const handle = temporal.client.workflow.getHandle<Holder>(workflowId);
  const { runId } = await untilAt(handle, 'holding');
  const other = await startHolder(temporal, { resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  await handle.signal(workflows.finish);
  await untilAt(other, 'holding');
  await untilWaiting(temporal.client, resource, 1);
  await finish(other);
  assert.notEqual((await untilAt(handle, 'holding')).runId, runId);
  await finish(handle);
  await assertSafe(temporal.client, resource, 1);
});

test('its permit ends with it, however its function ends, and its pace counts on', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, pace: { every: 1_500 } };
  for (const ending of ['return', 'fail'] as const) {
    const handle = await start({ resource, semaphore, holdMs: 1, ending });
    await (ending === 'return' ? handle.result() : assertFails(handle.result(), 'AsAsked', /as asked/));
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
    assert.equal(await permit.result(), 'released');
    const { startTime, closeTime } = await permit.describe();
    assert.ok(Number(closeTime) - Number(startTime) >= 1_400, 'it has kept its slot for the pace');
    const { events } = await handle.fetchHistory();
    assert.ok(!events?.some((event) => event.signalExternalWorkflowExecutionInitiatedEventAttributes), 'a release');
  }
});

test('with outlivesRun it releases its permit when its function returns', async () => {
  const resource = temporal.resource();
  await (await start({ resource, semaphore: { capacity: 1 }, acquire: { outlivesRun: true }, holdMs: 1 })).result();
  await assertReleased(temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })));
});

test('with outlivesRun it hands its permit to the next run; an attempt after that, whose permit is gone, waits for another', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const input = { resource, semaphore, acquire: { outlivesRun: true }, ending: 'continue-as-new' } as const;
  const { workflowId } = await start(input, { retry: RETRY });
  const handle = temporal.client.workflow.getHandle<Holder>(workflowId);
  const { runId } = await untilAt(handle, 'holding');
  const first = await handle.describe();
  const other = await startHolder(temporal, { resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  await handle.signal(workflows.finish);
  await eventually(async () => assert.notEqual((await handle.describe()).runId, first.runId));
  assert.equal((await untilAt(handle, 'holding')).runId, runId, 'the same permit');
  await untilWaiting(temporal.client, resource, 1); // the other waits on
  await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId).signal(REVOKE);
  await untilAt(other, 'holding');
  await finish(other);
  await eventually(async () => assert.notEqual((await untilAt(handle, 'holding')).runId, runId));
  await finish(handle);
  assert.deepEqual(await permitsRunning(temporal.client, resource), []);
});

test('reset to after its permit came, it goes on under it; reset to its beginning, it waits for its own old one', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, renewEvery: 300 };
  const handle = await start({ resource, semaphore });
  const { runId } = await untilAt(handle, 'holding');
  const reset = async (nth: 0 | -1) => {
    const { events } = await temporal.client.workflow.getHandle(handle.workflowId).fetchHistory();
    const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
    const { runId } = await temporal.client.workflowService.resetWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId: handle.workflowId },
      workflowTaskFinishEventId: tasks.at(nth)?.eventId,
      requestId: randomUUID(),
      reason: 'test',
    });
    return temporal.client.workflow.getHandle<Holder>(handle.workflowId, runId);
  };
  const again = await reset(-1);
  assert.equal(await untilRenewedAgain(temporal, resource), runId);
  assert.equal((await untilAt(again, 'holding')).runId, runId);
  const anew = await reset(0);
  await untilWaiting(temporal.client, resource, 1);
  await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId).signal(REVOKE);
  await untilAt(anew, 'holding');
  await finish(anew);
  await assertSafe(temporal.client, resource, 1);
});

/** The history of a Workflow that has ended, with another input. */
async function historyOf(handle: WorkflowHandle, input: workflows.HolderInput) {
  const history = await handle.fetchHistory();
  const started = history.events?.[0]?.workflowExecutionStartedEventAttributes ?? assert.fail();
  const [payload = assert.fail()] = started.input?.payloads ?? [];
  payload.data = Buffer.from(JSON.stringify(input));
  return history;
}

test('a Workflow that began before its type was limited replays when that is', async () => {
  const input = { resource: temporal.resource(), semaphore: { capacity: 1 }, holdMs: 10 };
  const handle = await start({ ...input, unlimited: true });
  await handle.result();
  await Worker.runReplayHistory({ workflowBundle: temporal.bundle }, await historyOf(handle, input), 'old');
});

test('a Workflow that began under another capacity replays under the new one', async () => {
  const resource = temporal.resource();
  for (const capacity of [2, 1_000]) {
    const handle = await start({ resource, semaphore: { capacity }, holdMs: 10 });
    await handle.result();
    for (const now of [1, 700]) {
      const history = await historyOf(handle, { resource, semaphore: { capacity: now }, holdMs: 10 });
      await Worker.runReplayHistory({ workflowBundle: temporal.bundle }, history, 'old');
    }
  }
});

test('a Workflow that began under other slots replays where before names them, with a marker and without', async () => {
  const resource = temporal.resource();
  for (const patch of [true, false]) {
    const input = { resource, holdMs: 10, patch };
    const handle = await start({ ...input, semaphore: { slots: ['a', 'b'] } });
    await handle.result();
    const replay = async (semaphore: SemaphoreOptions) => {
      const history = await historyOf(handle, { ...input, semaphore });
      await Worker.runReplayHistory({ workflowBundle: temporal.bundle }, history, 'old');
    };
    await assert.rejects(replay({ slots: ['c'] }), DeterminismViolationError);
    await replay({ slots: ['c'], before: [{ slots: ['a', 'b'] }] });
  }
});

test('a Workflow with withPermit replays under another lease and priority, and not under other slots', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { slots: ['a'] }, holdMs: 10 };
  const handle = await startHolder(temporal, input);
  await handle.result();
  const replay = async (now: workflows.HolderInput) =>
    await Worker.runReplayHistory({ workflowBundle: temporal.bundle }, await historyOf(handle, now), 'old');
  await replay({ ...input, semaphore: { slots: ['a'], lease: '1 hour' }, acquire: { priority: { priorityKey: 2 } } });
  await assert.rejects(replay({ ...input, semaphore: { slots: ['b'] } }), DeterminismViolationError);
});
