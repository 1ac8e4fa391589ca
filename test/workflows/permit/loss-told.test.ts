import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { cancelled, heartbeat } from '@temporalio/activity';
import { type HistoryEvent, isClosing } from '../../../scripts/support/history-events';
import { Operator } from '../../../src/operator';
import { permitId } from '../../../src/shared/permit-id';
import { CLOSING } from '../../../src/shared/protocol';
import { assertFails, startOptions, untilAt } from '../../support/holders';
import { eventually, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// Who hears of the end of a permit, and when: promise 4 of the library.

const temporal = useTemporal({ shared: true });

/** How long the activity takes to stop once it has heard. */
const STOPPING_MS = 1_000;

/** Runs `work` on a worker of its own, in a Workflow's `withPermit`, until it beats. */
async function startWorking(cancellationType: 'TRY_CANCEL' | 'WAIT_CANCELLATION_COMPLETED') {
  const resource = temporal.resource();
  const activityQueue = `activities-${randomUUID()}`;
  let stoppedAtMs = 0;
  let hasBegun = false;
  const work = async () => {
    const beating = setInterval(() => heartbeat(), 100);
    hasBegun = true;
    try {
      await cancelled();
    } finally {
      await new Promise((resolve) => setTimeout(resolve, STOPPING_MS)); // it puts its tools away
      stoppedAtMs = Date.now();
      clearInterval(beating);
    }
  };
  await temporal.worker({ taskQueue: activityQueue, activities: { work } });
  const handle = await temporal.client.workflow.start(workflows.activityHolder, {
    ...startOptions(temporal),
    args: [{ resource, semaphore: { capacity: 1 } }, activityQueue, cancellationType],
  });
  await eventually(async () => assert.ok(hasBegun));
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
  const closedAtMs = async () => {
    await permit.result();
    return (await permit.describe()).closeTime?.getTime() ?? 0;
  };
  const stopped = async () => await eventually(async () => assert.ok(stoppedAtMs > 0));
  return { resource, handle, closedAtMs, stopped, stoppedAtMs: () => stoppedAtMs };
}

test('a cancelled Workflow keeps its permit until its activity has stopped, if that waits for the cancellation', async () => {
  const { handle, closedAtMs, stopped, stoppedAtMs } = await startWorking('WAIT_CANCELLATION_COMPLETED');
  await handle.cancel();
  await stopped();
  assert.ok((await closedAtMs()) >= stoppedAtMs());
});

test('with another cancellation type the permit is free while the activity still stops', async () => {
  const { handle, closedAtMs, stopped, stoppedAtMs } = await startWorking('TRY_CANCEL');
  await handle.cancel();
  await stopped();
  assert.ok((await closedAtMs()) < stoppedAtMs());
});

test('an activity hears of the loss of its permit by its heartbeat, and withPermit throws when it has stopped', async () => {
  const { resource, handle, stopped } = await startWorking('WAIT_CANCELLATION_COMPLETED');
  await new Operator(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue }).revoke('0');
  await stopped();
  await assertFails(handle.result(), 'PermitLostError', /an operator revoked it/);
});

test('the activity under a terminated permit is asked to stop before the queue knows, and the Workflow ends after', async () => {
  const { resource, handle } = await startWorking('TRY_CANCEL');
  await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).terminate();
  await assertFails(handle.result(), 'PermitLostError', /its Workflow was terminated/);
  const { events } = await handle.fetchHistory();
  const find = (is: (event: HistoryEvent) => unknown) => events?.find(is) ?? assert.fail('there is no such event');
  const cancel = find((event) => event.activityTaskCancelRequestedEventAttributes);
  const notice = find((event) => event.signalExternalWorkflowExecutionInitiatedEventAttributes?.signalName === CLOSING);
  assert.equal(
    String(cancel.activityTaskCancelRequestedEventAttributes?.workflowTaskCompletedEventId),
    String(notice.signalExternalWorkflowExecutionInitiatedEventAttributes?.workflowTaskCompletedEventId),
    'two Workflow Tasks',
  );
  const answer = find(({ signalExternalWorkflowExecutionFailedEventAttributes: failed }) => {
    return String(failed?.initiatedEventId) === String(notice.eventId); // no queue runs
  });
  assert.ok(Number(answer.eventId) < Number(find(isClosing).eventId));
});

test('a Workflow whose workers are down for longer than its lease loses the permit, and hears of it in its first task', async () => {
  const resource = temporal.resource();
  const taskQueue = `holders-${randomUUID()}`;
  const semaphore = { capacity: 1, lease: '2s', renewEvery: 500, taskQueue: temporal.taskQueue } as const;
  const worker = await temporal.worker({ taskQueue });
  const handle = await temporal.client.workflow.start(workflows.holder, {
    ...startOptions(temporal),
    taskQueue,
    args: [{ resource, semaphore }],
  });
  const { runId } = await untilAt(handle, 'holding');
  await worker.stop();
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await permit.result(), 'lease-expired');
  await temporal.worker({ taskQueue });
  await assertFails(handle.result(), 'PermitLostError', /its lease ended before it was renewed/);
  const { events } = await handle.fetchHistory();
  const tasks = (events ?? []).filter(
    ({ workflowTaskCompletedEventAttributes }) => workflowTaskCompletedEventAttributes,
  );
  const closedAtMs = (await permit.describe()).closeTime?.getTime() ?? 0;
  const since = tasks.filter(({ eventTime }) => Number(eventTime?.seconds) * 1_000 > closedAtMs);
  assert.ok(since.length <= 2, `${since.length} tasks after the loss: one to hear of it, one to send what is left`);
});
