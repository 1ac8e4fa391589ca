import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { lacking } from '../../../scripts/support/requirements';
import { SemaphoreClient } from '../../../src/client';
import { permitId, queueId } from '../../../src/shared/permit-id';
import type { QueueInput } from '../../../src/shared/protocol';
import { DECLINED, ENQUEUE, WATCH } from '../../../src/shared/protocol';
import { startHolder, startHolding, untilAt } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { startPreemptible, stepsOf, untilStep } from '../../support/preemptible-holders';
import { assertNoPermitLeft, assertSafe, eventually, until, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// The server suggests to continue as new after 4,096 events. Here after 60, so that it happens again and again.
const temporal = useTemporal({
  dynamicConfig: ['limit.historyCount.suggestContinueAsNew=60'],
});

test('a queue that continues as new under load loses no ticket and no order', {
  skip: lacking('ownServer'),
}, async (t) => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1, fair: true } };
  const first = await startHolding(temporal, input);
  const waiters: Awaited<ReturnType<typeof startHolder>>[] = [];
  for (let count = 1; count <= 20; count++) {
    waiters.push(await startHolder(temporal, { ...input, holdMs: 0 }));
    if (count % 4 === 0) await untilWaiting(temporal.client, resource, count);
  }
  await first.handle.signal(workflows.finish);
  const late = Array.from({ length: 10 }, () => startHolder(temporal, { ...input, holdMs: 0 }));
  await Promise.all([...waiters, ...(await Promise.all(late))].map((waiter) => waiter.result()));

  const holds = await assertSafe(temporal.client, resource, 1);
  assert.equal(holds.length, 31);
  const places = holds
    .sort((a, b) => a.fromMs - b.fromMs)
    .map(({ holder }) => waiters.findIndex(({ workflowId }) => workflowId === holder))
    .filter((place) => place >= 0);
  for (const [turn, place] of places.entries()) {
    assert.ok(Math.abs(place - turn) < 4, `waiter ${place} was served as number ${turn}`); // they came four at a time
  }
  let runs = 0;
  let asked = 0;
  for await (const run of temporal.client.workflow.list({ query: `WorkflowId = "${queueId(resource)}"` })) {
    if (run.status.name === 'CONTINUED_AS_NEW') runs++;
    assert.ok((run.historyLength ?? 0) < 500, `a run of ${run.historyLength} events`);
    const events = await eventually(async () => {
      const { events } = await temporal.client.workflow.getHandle(run.workflowId, run.runId).fetchHistory();
      assert.ok(firstCompleted(events) >= 0, 'the last run has not begun yet');
      return events ?? [];
    });
    if (!wasOffered(events[0], '0') || wasTold(events)) continue;
    assert.ok(
      firstSignals(events).includes(`${WATCH} ${permitId({ resource, slot: '0' })}`),
      `the next run has not asked: ${JSON.stringify(events.slice(0, 12))}`,
    );
    asked++;
  }
  t.diagnostic(`${runs} runs continued as new, ${asked} of the next ones had to ask`);
  assert.ok(runs >= 3, `the queue continued as new only ${runs} times`);
});

type Event = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/** Whether the last run handed on that it had offered the slot. */
function wasOffered(started: Event | undefined, slot: string): boolean {
  const { continuedExecutionRunId, input } = started?.workflowExecutionStartedEventAttributes ?? {};
  const [payload] = input?.payloads ?? [];
  if (!continuedExecutionRunId || !payload?.data) return false;
  const { view } = JSON.parse(Buffer.from(payload.data).toString()) as QueueInput;
  return view?.slots.some(([name, { at }]) => name === slot && at === 'offered') ?? false;
}

/** The index of the event that completes the run's first Workflow Task. */
function firstCompleted(events: readonly Event[] | null | undefined): number {
  return events?.findIndex((event) => event.workflowTaskCompletedEventAttributes) ?? -1;
}

/** Whether a signal came before the run began: perhaps the news of that slot. */
function wasTold(events: readonly Event[]): boolean {
  return events.slice(0, firstCompleted(events)).some((event) => event.workflowExecutionSignaledEventAttributes);
}

/** The signals that the run sends in its first Workflow Task, and to whom. */
function firstSignals(events: readonly Event[]): string[] {
  const sent = events.slice(firstCompleted(events));
  const next = sent.findIndex((event) => event.workflowTaskScheduledEventAttributes);
  return sent
    .slice(0, next < 0 ? undefined : next)
    .flatMap(({ signalExternalWorkflowExecutionInitiatedEventAttributes: signal }) =>
      signal ? [`${signal.signalName} ${signal.workflowExecution?.workflowId}`] : [],
    );
}

test('what an operator has set outlives the run in which it was set, and so do the drained slots', {
  skip: lacking('ownServer'),
}, async (t) => {
  const resource = temporal.resource();
  const { taskQueue } = temporal;
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 3, taskQueue });
  const override = await operatorOf(pool).resize(1, { reason: 'small', until: new Date(Date.now() + 3_600_000) });
  const drained = await eventually(async () => {
    const { slots } = await operatorOf(pool).inspect();
    assert.deepEqual(
      slots.map(({ state }) => state),
      ['free', 'drained', 'drained'],
    );
    return slots.map(({ permit }) => permit?.runId);
  });
  const load = Array.from({ length: 20 }, () =>
    startHolder(temporal, { resource, semaphore: { capacity: 3 }, holdMs: 0 }),
  );
  await Promise.all((await Promise.all(load)).map((holder) => holder.result()));
  const now = await operatorOf(pool).inspect();
  assert.deepEqual([now.override, now.capacity], [override, 1]);
  assert.deepEqual(
    now.slots.slice(1).map(({ permit }) => permit?.runId),
    drained.slice(1),
    'the same permits as before',
  );
  const run = await temporal.client.workflow.getHandle(queueId(resource)).describe();
  assert.notEqual(run.runId, now.slots[1]?.permit?.holder.runId, 'the queue has continued as new');
  await operatorOf(pool).resize(3, { ifVersion: override.version });

  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const { runId } = await queue.describe();
  const untilMs = Date.now() + 6_000;
  await operatorOf(pool).pause({ until: new Date(untilMs) });
  // A slot that the queue has not drained yet belongs to any caller that claims it.
  await until(async () => {
    const { slots } = await operatorOf(pool).inspect();
    return Date.now() >= untilMs || slots.every(({ state }) => state === 'drained');
  });
  const waiters = await Promise.all(
    [1, 2, 3].map(() => startHolder(temporal, { resource, semaphore: { capacity: 3 }, holdMs: 0 })),
  );
  // Malformed, so left out; but each is an event.
  await Promise.all(Array.from({ length: 80 }, () => queue.signal(ENQUEUE)));
  await eventually(async () => assert.notEqual((await queue.describe()).runId, runId));
  // On a machine so slow that the pause is over by now, this has shown nothing, and the model test must do.
  t.diagnostic(`the queue has continued as new ${untilMs - Date.now()} ms before the end of the pause`);
  await Promise.race(waiters.map((waiter) => waiter.result()));
  assert.ok(Date.now() >= untilMs, 'somebody was served during the pause');
  await Promise.all(waiters.map((waiter) => waiter.result()));
  await assertNoPermitLeft(temporal.client, resource);
  await eventually(async () => assert.equal((await operatorOf(pool).inspect()).queue, 'none'));
});

test('a queue that continues as new while a holder gives way asks no other one', {
  skip: lacking('ownServer'),
}, async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 2 };
  const acquire = { priority: { priorityKey: 4 }, preemptible: { grace: '5 minutes' } } as const;
  const { handle: older } = await startPreemptible(temporal, { resource, semaphore, acquire });
  const { handle: younger } = await startPreemptible(temporal, { resource, semaphore, acquire, body: 'stubborn' });
  const alarm = await startHolder(temporal, {
    resource,
    semaphore,
    acquire: { priority: { priorityKey: 1 }, preempt: true },
  });
  await untilStep(younger, 'told');
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const { runId } = await queue.describe();
  await eventually(async () => {
    await Promise.all(Array.from({ length: 20 }, () => queue.signal(DECLINED, { ticketId: 'none' })));
    assert.notEqual((await queue.describe()).runId, runId);
  });
  await younger.signal(workflows.finish);
  await younger.result(); // it was done within its grace
  await untilAt(alarm, 'holding');
  assert.deepEqual(await stepsOf(older), ['holds']);
  for (const handle of [older, alarm]) {
    await handle.signal(workflows.finish);
    await handle.result();
  }
  await assertSafe(temporal.client, resource, 2);
});
