import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { lacking } from '../../../scripts/support/requirements';
import { SemaphoreClient } from '../../../src/client';
import { keyResource } from '../../../src/shared/key-names';
import { permitId, queueId } from '../../../src/shared/permit-id';
import type { QueueInput, Ticket } from '../../../src/shared/protocol';
import { ASK_PRIORITY, DECLINED, ENQUEUE, INHERIT, OVERRIDE, TURN, WATCH } from '../../../src/shared/protocol';
import { permitSlotWorkflow } from '../../../src/workflows';
import { startHolder, startHolding, startOptions, untilAt } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { startPreemptible, stepsOf, untilStep } from '../../support/preemptible-holders';
import {
  assertNoPermitLeft,
  assertSafe,
  endQueue,
  eventually,
  until,
  untilWaiting,
  useTemporal,
} from '../../support/temporal';
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

/** A waiter that only notes its signals. */
async function startWaiter(): Promise<Ticket['waiter']> {
  const { workflowId, firstExecutionRunId: runId } = await temporal.client.workflow.start(workflows.sleeper, {
    ...startOptions(temporal),
    args: [1],
  });
  return { workflowId, runId };
}

/** Starts a queue whose worker starts after these signals, so that its first Workflow Task has all of them. @returns the ID of its first run */
async function startLate(
  resource: string,
  tickets: Ticket[],
  signals: [name: string, payload: object][],
): Promise<string> {
  const taskQueue = `${temporal.taskQueue}-${resource}`;
  const { firstExecutionRunId } = await temporal.client.workflow.start(workflows.waitQueueWorkflow, {
    workflowId: queueId(resource),
    taskQueue,
    args: [{ tickets }],
  });
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  for (let sent = 0; sent < signals.length; sent += 50)
    await Promise.all(signals.slice(sent, sent + 50).map(([name, payload]) => queue.signal(name, payload)));
  await temporal.worker({ taskQueue });
  await eventually(async () => assert.notEqual((await queue.describe()).runId, firstExecutionRunId));
  return firstExecutionRunId;
}

/** Signals that change nothing, each of which is an event. */
const noise = (count: number) =>
  Array.from({ length: count }, (): [string, object] => [DECLINED, { ticketId: 'none' }]);

test('a queue that is to continue as new first answers the queue that asks for its priority', {
  skip: lacking('ownServer'),
}, async () => {
  const resource = temporal.resource();
  const { handle: holder } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const waiter = await startWaiter();
  const ticket = { id: randomUUID(), waiter, slots: 1, sinceMs: Date.now(), priorityKey: 2 };
  const asker = `${resource}-asker`;
  const runId = await startLate(resource, [ticket], [...noise(80), [ASK_PRIORITY, { resource: asker }]]);
  const { events } = await temporal.client.workflow.getHandle(queueId(resource), runId).fetchHistory();
  const told = (events ?? []).flatMap(({ signalExternalWorkflowExecutionInitiatedEventAttributes: sent }) =>
    sent?.signalName === INHERIT ? [sent.workflowExecution?.workflowId] : [],
  );
  assert.deepEqual(told, [queueId(asker)]);
  await endQueue(temporal.client, resource);
  await temporal.client.workflow.getHandle(waiter.workflowId).terminate();
  await holder.signal(workflows.finish);
  await holder.result();
});

test('a queue that is too long to send anything has its next run say what it owes', {
  skip: lacking('ownServer'),
}, async () => {
  const resource = temporal.resource();
  // All slots are held, so the queue takes none out of use and gives no turn.
  const permits = await Promise.all(
    ['0', '1'].map((slot) =>
      temporal.client.workflow.start(permitSlotWorkflow, {
        workflowId: permitId({ resource, slot }),
        taskQueue: temporal.taskQueue,
        args: [{ leaseMs: 600_000, holder: { identity: 'test' } }],
      }),
    ),
  );
  const ticketOf = async (fields: Partial<Ticket>): Promise<Ticket> => {
    return { id: randomUUID(), waiter: await startWaiter(), slots: 2, sinceMs: Date.now(), ...fields };
  };
  const [wanted, other] = ['wanted', 'other'].map((key) => keyResource(resource, key)) as [string, string];
  const outranked = await ticketOf({ inherits: [wanted], givesWay: true });
  const unasked = await ticketOf({ inherits: [other], givesWay: true });
  const refused = await ticketOf({ permits: 2 });
  await startLate(
    resource,
    [outranked, unasked],
    [
      [OVERRIDE, { slots: 2, capacity: 1 }],
      [INHERIT, { resource: wanted, priorityKey: 1 }],
      ...noise(1_000),
      [ENQUEUE, refused],
    ],
  );
  const told = await eventually(async () => {
    const { events } = await temporal.client.workflow.getHandle(queueId(resource)).fetchHistory();
    assert.ok(firstCompleted(events) >= 0, 'the next run has not begun yet');
    return firstSignals(events ?? []).filter((signal) => !signal.startsWith(WATCH));
  });
  assert.deepEqual(
    told.sort(),
    [
      `${ASK_PRIORITY} ${queueId(other)}`,
      ...[outranked, refused].map(({ waiter }) => `${TURN} ${waiter.workflowId}`),
    ].sort(),
  );
  await endQueue(temporal.client, resource);
  for (const permit of permits) await permit.cancel();
  for (const { waiter } of [outranked, unasked, refused])
    await temporal.client.workflow.getHandle(waiter.workflowId).terminate();
});
