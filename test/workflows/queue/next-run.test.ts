import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { QUEUE_WORKFLOW, type Ticket, TURN, type Turn, WATCH } from '../../../src/shared/protocol';
import { permitSlotWorkflow } from '../../../src/workflows';
import { handOn } from '../../../src/workflows/queue/handed-on';
import { QueueState } from '../../../src/workflows/queue/queue-state';
import { payload } from '../../reliability/chaos/checks/queue-order';
import { startOptions } from '../../support/holders';
import { endQueue, eventually, queueView, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

/** The signals that a Workflow which was continued as new sends in its first Workflow Task. */
async function sentInFirstTask(workflowId: string) {
  const { events } = await temporal.client.workflow.getHandle(workflowId).fetchHistory();
  assert.ok(events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId);
  const task = events.find((event) => event.workflowTaskCompletedEventAttributes);
  assert.ok(task, 'it has not begun yet');
  return events.flatMap(({ signalExternalWorkflowExecutionInitiatedEventAttributes: sent }) =>
    sent && String(sent.workflowTaskCompletedEventId) === String(task.eventId) ? sent : [],
  );
}

/** A ticket whose waiter only notes its signals. */
async function ticketOf(options: Omit<Ticket, 'id' | 'waiter'>): Promise<Ticket> {
  const { workflowId, firstExecutionRunId: runId } = await temporal.client.workflow.start(workflows.sleeper, {
    ...startOptions(temporal),
    args: [1],
  });
  return { id: randomUUID(), waiter: { workflowId, runId }, ...options };
}

test('the next run of a queue takes over the slots, the doubts and the answers that it owes, and asks about the turns', async () => {
  const resource = temporal.resource();
  const taskQueue = temporal.taskQueue;
  const [held, offered] = await Promise.all(
    ['0', '1'].map((slot) =>
      temporal.client.workflow.start(permitSlotWorkflow, {
        workflowId: permitId({ resource, slot }),
        taskQueue,
        args: [{ leaseMs: 600_000, holder: { identity: 'test' } }],
      }),
    ),
  );
  assert.ok(held && offered);
  const nowMs = Date.now();
  const [served, waiting, owed, tooMany, refused] = await Promise.all([
    ticketOf({ slots: 2, sinceMs: nowMs }),
    ticketOf({ slots: 2, sinceMs: nowMs + 1 }),
    ticketOf({ slots: 2, sinceMs: nowMs + 2 }),
    ticketOf({ slots: 2, sinceMs: nowMs + 3, maxWaiting: 1 }),
    ticketOf({ slots: 2, sinceMs: nowMs + 4 }),
  ]);
  const state = new QueueState({
    tickets: [served, waiting, owed, tooMany],
    slots: [
      ['0', { at: 'held', sinceMs: nowMs, probeAtMs: nowMs + 600_000 }],
      ['1', { at: 'offered', ticketId: served.id, untilMs: nowMs + 600_000 }],
    ],
    shares: [],
  });
  state.doubt([tooMany.id]);
  await temporal.client.workflow.start(workflows.continuesAs, {
    workflowId: queueId(resource),
    taskQueue,
    args: [QUEUE_WORKFLOW, handOn(state, new Map([owed, refused].map((it) => [it.id, it])))],
  });
  const sent = await eventually(() => sentInFirstTask(queueId(resource)));
  const told = sent.map(({ signalName, workflowExecution }) => [signalName ?? '', workflowExecution?.workflowId ?? '']);
  const offeredTo = permitId({ resource, slot: '1' });
  assert.deepEqual(
    told.sort(),
    [[WATCH, offeredTo], ...[owed, tooMany, refused].map((it) => [TURN, it.waiter.workflowId])].sort(),
  );
  const { tickets, slots } = (await queueView(temporal.client, resource)) ?? assert.fail();
  assert.deepEqual(
    tickets.map(({ id }) => id),
    [served.id, waiting.id, owed.id],
  );
  assert.deepEqual(
    slots.map(([slot, { at }]) => [slot, at]),
    [
      ['0', 'held'],
      ['1', 'offered'],
    ],
  );
  await endQueue(temporal.client, resource);
  for (const permit of [held, offered]) await permit.cancel();
  for (const { waiter } of [served, waiting, owed, tooMany, refused])
    await temporal.client.workflow.getHandle(waiter.workflowId).terminate();
});

test('a waiter that asks while its place goes to a later one gets one answer, which says so', async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const nowMs = Date.now();
  const dropOldest = { slots: 1, maxWaiting: 1, whenFull: 'drop-oldest' } as const;
  const asking = await ticketOf({ ...dropOldest, sinceMs: nowMs });
  const later = await ticketOf({ ...dropOldest, sinceMs: nowMs + 1 });
  const state = new QueueState({
    tickets: [asking, later],
    slots: [['0', { at: 'held', sinceMs: nowMs, probeAtMs: nowMs + 600_000 }]],
    shares: [],
  });
  state.doubt([later.id]);
  await client.workflow.start(workflows.continuesAs, {
    workflowId: queueId(resource),
    taskQueue,
    args: [QUEUE_WORKFLOW, handOn(state, new Map([[asking.id, asking]]))],
  });
  const [turn, ...others] = await eventually(() => sentInFirstTask(queueId(resource)));
  assert.deepEqual([turn?.signalName, turn?.workflowExecution?.workflowId], [TURN, asking.waiter.workflowId]);
  assert.equal(payload<Turn>(turn?.input?.payloads)?.superseded, true);
  assert.deepEqual(others, []);
  await endQueue(client, resource);
  for (const { waiter } of [asking, later]) await client.workflow.getHandle(waiter.workflowId).terminate();
});
