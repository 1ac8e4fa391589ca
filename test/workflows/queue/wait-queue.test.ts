import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { HistoryEvent } from '../../../scripts/support/history-events';
import { SemaphoreClient } from '../../../src/client';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { CLOSING, DECLINED, ENQUEUE, MISSED, RELEASE, RENEW, TURN } from '../../../src/shared/protocol';
import { permitSlotWorkflow } from '../../../src/workflows';
import {
  assertFails,
  assertPassedOn,
  assertQueueTold,
  startHolder,
  startHolding,
  startOptions,
  untilAt,
} from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { signalsOf } from '../../support/permit-signals';
import { taskFailures } from '../../support/strangers';
import { assertSafe, endQueue, eventually, queueView, until, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

type Handle = Awaited<ReturnType<typeof startHolder>>;

/** Whether this has happened to a Workflow since its last Workflow Task. */
async function hasUnseen(
  handle: Pick<Handle, 'fetchHistory'>,
  what: 'timerFired' | 'workflowExecutionSignaled',
): Promise<boolean> {
  const { events } = await handle.fetchHistory();
  for (const event of (events ?? []).reverse()) {
    if (event.workflowTaskCompletedEventAttributes) return false;
    if (event[`${what}EventAttributes`]) return true;
  }
  return false;
}

/** That a Workflow that gets this signal comes to such an event without a timer that it sets in between. */
async function assertNoTimer(
  handle: Pick<Handle, 'fetchHistory'>,
  signal: string,
  isEnd: (event: HistoryEvent) => unknown,
): Promise<void> {
  const events = (await handle.fetchHistory()).events ?? [];
  const from = events.findIndex((event) => event.workflowExecutionSignaledEventAttributes?.signalName === signal);
  const to = events.findIndex((event, at) => at > from && isEnd(event));
  assert.ok(from >= 0 && to > from, `after ${signal} it did not come to that: ${from}, ${to}`);
  const fired = events.slice(from, to).flatMap(({ timerFiredEventAttributes: timer }) => timer?.startedEventId ?? []);
  const waitedFor = fired.filter((startedId) => Number(startedId) > Number(events[from]?.eventId));
  assert.deepEqual(waitedFor, [], `after ${signal} it waited for a timer`);
}

test('neither the permit nor its queue waits before a slot that was released passes on', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, recheckAfter: '1 hour' } as const;
  const first = await startHolding(temporal, { resource, semaphore });
  const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  await eventually(async () => {
    assert.equal((await queueView(temporal.client, resource))?.slots[0]?.[1].at, 'held');
  });
  await first.handle.signal(workflows.finish);
  await waiter.result();
  const { workflow } = temporal.client;
  const permit = workflow.getHandle(permitId({ resource, slot: '0' }), first.runId);
  await assertNoTimer(permit, RELEASE, (event) => event.workflowExecutionCompletedEventAttributes);
  const isTurn = ({ signalExternalWorkflowExecutionInitiatedEventAttributes: sent }: HistoryEvent) =>
    sent?.signalName === TURN;
  await assertNoTimer(workflow.getHandle(queueId(resource)), CLOSING, isTurn);
  await assertSafe(temporal.client, resource, 1);
});

test("a Workflow's own priority is what its waiters have, unless acquire says otherwise, and not what its permit and queue have", async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const start = async (holdMs?: number) =>
    await temporal.client.workflow.start(workflows.holder, {
      ...startOptions(temporal),
      priority: { priorityKey: 5, fairnessKey: 'batch', fairnessWeight: 4 },
      args: [{ resource, semaphore, holdMs, acquire: { priority: { priorityKey: 1 } } }],
    });
  const first = await start();
  await untilAt(first, 'holding');
  const waiter = await start(0);
  const { tickets } = await untilWaiting(temporal.client, resource, 1);
  const { priorityKey, fairnessKey, fairnessWeight } = tickets[0] ?? assert.fail();
  assert.deepEqual([priorityKey, fairnessKey, fairnessWeight], [1, 'batch', 4]);
  for (const id of [queueId(resource), permitId({ resource, slot: '0' })]) {
    const { events } = await temporal.client.workflow.getHandle(id).fetchHistory();
    const own = events?.[0]?.workflowExecutionStartedEventAttributes?.priority;
    assert.deepEqual([own?.priorityKey, own?.fairnessKey], [1, 'permits'], id);
  }
  await first.signal(workflows.finish);
  await waiter.result();
});

test('a turn for a waiter that was terminated goes to the next at once', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 0 };
  const first = await startHolding(temporal, { ...input, holdMs: undefined });
  const terminated = await startHolder(temporal, input);
  await untilWaiting(temporal.client, resource, 1);
  const next = await startHolder(temporal, input);
  await untilWaiting(temporal.client, resource, 2); // the terminated one can't say that it left
  await terminated.terminate();
  await first.handle.signal(workflows.finish);
  await next.result();
  await assertPassedOn(
    temporal.client,
    resource,
    (event) => event.signalExternalWorkflowExecutionFailedEventAttributes,
  );
  await assertSafe(temporal.client, resource, 1);
});

test('terminated at any moment, waiters cost the others nothing', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 2 }, holdMs: 0 };
  const unlucky = Array.from({ length: 10 }, async (_, index) => {
    const handle = await startHolder(temporal, input);
    await delay(index * 25);
    await handle.terminate().catch(() => undefined);
    await handle.result().catch(() => undefined);
  });
  const lucky = Array.from({ length: 6 }, async () => (await startHolder(temporal, input)).result());
  await Promise.all([...unlucky, ...lucky]);
  await assertSafe(temporal.client, resource, 2);
});

test('a holder that ends without a release hands on: its permit tells the queue', async (t) => {
  for (const ending of ['terminated', 'continued as new'] as const) {
    const resource = temporal.resource();
    const input = { resource, semaphore: { capacity: 1 } };
    const first = await temporal.client.workflow.start(workflows.bareHolder, {
      ...startOptions(temporal),
      args: [input],
    });
    const { runId } = await untilAt(first, 'holding');
    const waiter = await startHolder(temporal, { ...input, holdMs: 0 });
    await untilWaiting(temporal.client, resource, 1);
    await eventually(async () => {
      const view = await queueView(temporal.client, resource);
      assert.equal(view?.slots[0]?.[1].at, 'held');
    });
    const holding = temporal.client.workflow.getHandle(first.workflowId, first.firstExecutionRunId);
    if (ending === 'terminated') await first.terminate();
    else await first.signal(workflows.finish);
    await waiter.result();
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
    assert.equal(await permit.result(), 'released', ending);
    const [gone, freed] = await Promise.all([holding.describe(), permit.describe()]);
    t.diagnostic(`${ending}: its slot is free after ${Number(freed.closeTime) - Number(gone.closeTime)} ms`);
    await assertQueueTold(temporal.client, resource, runId);
    if (ending === 'continued as new') await temporal.client.workflow.getHandle(first.workflowId).terminate();
    await assertSafe(temporal.client, resource, 1);
  }
});

test('malformed messages do not keep the queue from its work', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 } };
  const first = await startHolding(temporal, input);
  const waiter = await startHolder(temporal, { ...input, holdMs: 0 });
  const { tickets } = await untilWaiting(temporal.client, resource, 1);
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const sound = tickets[0] ?? assert.fail();
  const bad = [
    undefined,
    null,
    'x',
    {},
    { ...sound, id: 'a', waiter: { workflowId: 'w', runId: 'no UUID' } },
    { ...sound, id: 'b', waiter: { workflowId: '' } },
    { ...sound, id: 'c', slots: 1e9 },
    { ...sound, id: 'd', slots: ['a:b'] },
    { ...sound, id: 'e', sinceMs: 'now' },
  ];
  for (const payload of bad) {
    await queue.signal(ENQUEUE, payload);
    await queue.signal(MISSED, { ticket: payload, slot: '0' });
  }
  for (const name of [MISSED, DECLINED, CLOSING])
    for (const payload of bad.slice(0, 4)) await queue.signal(name, payload);
  await first.handle.signal(workflows.finish);
  await waiter.result();
  await assertSafe(temporal.client, resource, 1);
});

test('a ticket that comes just as the queue ends is not lost', async () => {
  const resource = temporal.resource();
  const taskQueue = `${temporal.taskQueue}-permits`;
  const semaphore = { capacity: 1, fair: true, taskQueue, recheckAfter: '10 minutes' as const };
  const permits = await temporal.worker({ taskQueue });
  const first = await startHolding(temporal, { resource, semaphore });
  const second = await startHolder(temporal, { resource, semaphore, acquire: { timeout: 300 } });
  await assertFails(second.result(), 'PermitTimeoutError', /300 ms/);
  await first.handle.signal(workflows.finish);
  await first.handle.result(); // the queue is empty, watches nothing, and is about to end
  await permits.stop();
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  await until(() => hasUnseen(queue, 'timerFired'));
  const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await until(() => hasUnseen(queue, 'workflowExecutionSignaled'));
  await temporal.worker({ taskQueue });
  await eventually(async () => assert.equal((await waiter.describe()).status.name, 'COMPLETED'));
  await assertSafe(temporal.client, resource, 1);
});

test('lines that come and go while a slot is held find one queue, that ends soon after the hold', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: '10 minutes' as const };
  const first = await startHolding(temporal, { resource, semaphore });
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const runs = new Set<string>();
  for (let line = 0; line < 2; line++) {
    const late = await startHolder(temporal, { resource, semaphore });
    await untilWaiting(temporal.client, resource, 1); // so that the queue has learned who holds the slot
    await late.cancel();
    await assert.rejects(late.result());
    if (line === 0) await delay(2_500); // longer than a queue stays that watches nothing
    const { runId, status } = await queue.describe();
    assert.equal(status.name, 'RUNNING');
    runs.add(runId);
  }
  assert.equal(runs.size, 1);
  await first.handle.signal(workflows.finish);
  await first.handle.result();
  await queue.result(); // while it watches a slot, it stays for half an hour
});

test('a cancel request does not end the queue, nor what an operator has set', async () => {
  const resource = temporal.resource();
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  await operatorOf(pool).pause({ reason: 'maintenance' });
  const waiter = await startHolder(temporal, { resource, semaphore: { capacity: 1 }, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const { runId } = await queue.describe();
  await queue.cancel();
  await untilWaiting(temporal.client, resource, 1);
  assert.equal((await operatorOf(pool).inspect()).override?.reason, 'maintenance');
  await operatorOf(pool).resume();
  await waiter.result();
  assert.deepEqual(await taskFailures(temporal.client, queueId(resource), runId), []);
});

test('a drained slot stays out of use for as long as its queue runs, and then for its lease', async () => {
  const resource = temporal.resource();
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  const start = (slot: string) =>
    temporal.client.workflow.start(permitSlotWorkflow, {
      workflowId: permitId({ resource, slot }),
      taskQueue: temporal.taskQueue,
      args: [{ leaseMs: 500, holder: { workflowId: queueId(resource) } }],
    });
  const left = await start('left');
  assert.equal(await left.result(), 'lease-expired', 'no queue runs');
  await operatorOf(semaphore).pause();
  await eventually(async () => {
    const [slot] = (await operatorOf(semaphore).inspect({ recent: 0 })).slots;
    const leftMs = (slot?.permit?.leaseDeadline?.getTime() ?? 0) - Date.now();
    assert.ok(leftMs > 50 * 60_000 && leftMs <= 60 * 60_000, `${leftMs} ms left`);
  });
  const kept = await start('kept');
  await eventually(async () => {
    const timers = ((await kept.fetchHistory()).events ?? []).filter((event) => event.timerFiredEventAttributes);
    assert.ok(timers.length >= 2, 'its lease has not ended twice');
  });
  assert.equal((await kept.describe()).status.name, 'RUNNING');
  await kept.signal(RELEASE);
  await operatorOf(semaphore).resume();
});

test('a queue renews the permit by which a terminated one keeps a slot out of use', async () => {
  const resource = temporal.resource();
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  await operatorOf(semaphore).pause();
  const workflowId = permitId({ resource, slot: '0' });
  const { runId } = await temporal.client.workflow.getHandle(workflowId).describe();
  await endQueue(temporal.client, resource);
  await operatorOf(semaphore).pause();
  await eventually(async () => assert.ok((await signalsOf(temporal, { workflowId, runId })).includes(RENEW)));
  await operatorOf(semaphore).resume();
});

test('one Workflow waits in two queues, and twice in one, at the same time', async () => {
  const [x, y] = [temporal.resource('x'), temporal.resource('y')];
  const semaphore = { capacity: 1 };
  const holders = [
    await startHolding(temporal, { resource: x, semaphore }),
    await startHolding(temporal, { resource: y, semaphore }),
  ];
  const inX = { resource: x, semaphore };
  const both = await temporal.client.workflow.start(workflows.doubleHolder, {
    ...startOptions(temporal, 'double'),
    args: [inX, { resource: y, semaphore }],
  });
  const twice = await temporal.client.workflow.start(workflows.doubleHolder, {
    ...startOptions(temporal, 'double'),
    args: [inX, inX],
  });
  await untilWaiting(temporal.client, x, 3);
  await untilWaiting(temporal.client, y, 1);
  for (const { handle } of holders) await handle.signal(workflows.finish);
  assert.deepEqual(await both.result(), ['0', '0']);
  assert.deepEqual(await twice.result(), ['0', '0']);
  await assertSafe(temporal.client, x, 1);
  await assertSafe(temporal.client, y, 1);
});

test('a resource that is used from two task queues has one queue, which ends by itself', async () => {
  const resource = temporal.resource();
  const taskQueue = `${temporal.taskQueue}-other`;
  await temporal.worker({ taskQueue });
  const first = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 0 };
  const waiters = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      temporal.client.workflow.start(workflows.holder, {
        ...startOptions(temporal),
        ...(index % 2 && { taskQueue }),
        args: [input],
      }),
    ),
  );
  await untilWaiting(temporal.client, resource, 6); // all in the line of this one run
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const { runId } = await queue.describe();
  await first.handle.signal(workflows.finish);
  await Promise.all(waiters.map((waiter) => waiter.result()));
  await assertSafe(temporal.client, resource, 1);
  await eventually(async () => assert.equal(await queueView(temporal.client, resource), undefined));
  assert.equal((await queue.describe()).runId, runId, 'another queue came after it');
});

test('a long wait costs a bounded number of events: at most 25 to park, and 16 for each recheck', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 3, recheckAfter: 500 };
  const holders = await Promise.all(Array.from({ length: 3 }, () => startHolding(temporal, { resource, semaphore })));
  const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  const events = await eventually(async () => {
    const events = (await waiter.fetchHistory()).events ?? [];
    assert.ok(events.some((event) => event.timerFiredEventAttributes));
    return events;
  });
  const looks = events.filter((event) => event.timerFiredEventAttributes).length;
  assert.ok(events.length <= 25 + 16 * looks, `${events.length} events with ${looks} rechecks`);
  await Promise.all(holders.map(({ handle }) => handle.signal(workflows.finish)));
  await waiter.result();
  await assertSafe(temporal.client, resource, 3);
});

test('where nobody waits, a newcomer tries two slots; where somebody does, one', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 3 };
  const holders = await Promise.all([0, 1, 2].map(() => startHolding(temporal, { resource, semaphore })));
  await endQueue(temporal.client, resource); // that of the holders
  const waiters: Handle[] = [];
  for (const tries of [2, 1]) {
    const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
    waiters.push(waiter);
    await untilWaiting(temporal.client, resource, waiters.length);
    const { events } = await waiter.fetchHistory();
    const refused = events?.filter((event) => event.startChildWorkflowExecutionFailedEventAttributes);
    assert.equal(refused?.length, tries);
  }
  await Promise.all(holders.map(({ handle }) => handle.signal(workflows.finish)));
  await Promise.all(waiters.map((waiter) => waiter.result()));
  await assertSafe(temporal.client, resource, 3);
});
