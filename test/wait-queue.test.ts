import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Priority } from '@temporalio/common';
import { SemaphoreClient } from '../src/client';
import { permitId, queueId } from '../src/shared/permit-id';
import { CLOSING, DECLINED, ENQUEUE, MISSED } from '../src/shared/protocol';
import { OFFER_TIMEOUT_MS } from '../src/workflows/queue/queue-state';
import { assertFails, startHolder, startHolding, startOptions, strandQueue, untilAt } from './support/holders';
import { taskFailures } from './support/strangers';
import { assertSafe, endQueue, eventually, queueView, until, untilWaiting, useTemporal } from './support/temporal';
import type { HolderInput, SemaphoreOptions } from './support/workflows';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

type Handle = Awaited<ReturnType<typeof startHolder>>;

/** Lets `waiters` line up one after the other behind a held pool, frees it, and says in which order they were served. */
async function servedInOrder(input: HolderInput, waiters: (Priority | undefined)[]): Promise<number[]> {
  const { resource } = input;
  const first = await startHolding(temporal, input);
  const handles: Handle[] = [];
  for (const priority of waiters) {
    handles.push(await startHolder(temporal, { ...input, holdMs: 0, acquire: { priority } }));
    await untilWaiting(temporal.client, resource, handles.length);
  }
  await first.handle.signal(workflows.finish);
  await Promise.all(handles.map((handle) => handle.result()));
  const holds = await assertSafe(temporal.client, resource, 1);
  const inOrder = holds.sort((a, b) => a.fromMs - b.fromMs).slice(1);
  return inOrder.map(({ holder }) => handles.findIndex(({ workflowId }) => workflowId === holder));
}

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

test('fair, 30 waiters of capacity 1 are served exactly in order of arrival', async () => {
  const input = { resource: temporal.resource(), semaphore: { capacity: 1, fair: true } };
  const order = await servedInOrder(input, Array.from({ length: 30 }));
  assert.deepEqual(
    order,
    order.map((_, place) => place),
  );
});

test('with mixed priorities, exactly by priority, then arrival', async () => {
  const input = { resource: temporal.resource(), semaphore: { capacity: 1, fair: true } };
  const keys = [3, 5, 1, 3, 2, 5, 1, 4, undefined, 2, 4, 3];
  const order = await servedInOrder(
    input,
    keys.map((priorityKey) => ({ priorityKey })),
  );
  const due = keys
    .map((key, index) => ({ key: key ?? 3, index }))
    .sort((a, b) => a.key - b.key || a.index - b.index)
    .map(({ index }) => index);
  assert.deepEqual(order, due);
});

test('two fairness keys of weight 1 and 3 share turns 1 to 3, within a tenth', async () => {
  const input = { resource: temporal.resource(), semaphore: { capacity: 1, fair: true } };
  const light = Array.from({ length: 16 }, () => ({ fairnessKey: 'light', fairnessWeight: 1 }));
  const heavy = Array.from({ length: 16 }, () => ({ fairnessKey: 'heavy', fairnessWeight: 3 }));
  const order = await servedInOrder(input, [...light, ...heavy]);
  const bothWaited = order.slice(0, 16);
  const share = bothWaited.filter((index) => index >= light.length).length / bothWaited.length;
  assert.ok(Math.abs(share - 0.75) <= 0.075, `heavy had ${share}`);
});

test("a Workflow's own priority is what its waiters have, unless acquire says otherwise", async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const own = await temporal.client.workflow.start(workflows.holder, {
    ...startOptions(temporal),
    priority: { priorityKey: 2, fairnessKey: 'team-a', fairnessWeight: 4 },
    args: [{ resource, semaphore, holdMs: 0, acquire: { priority: { priorityKey: 1 } } }],
  });
  const { tickets } = await untilWaiting(temporal.client, resource, 1);
  const { priorityKey, fairnessKey, fairnessWeight } = tickets[0] ?? assert.fail();
  assert.deepEqual(
    { priorityKey, fairnessKey, fairnessWeight },
    { priorityKey: 1, fairnessKey: 'team-a', fairnessWeight: 4 },
  );
  await first.handle.signal(workflows.finish);
  await own.result();
  await assertSafe(temporal.client, resource, 1);
});

test('waiters that time out, are cancelled or are terminated leave the line, and the rest keep their places', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 0 };
  const first = await startHolding(temporal, { ...input, holdMs: undefined });
  const line = async (acquire = {}) => {
    const handle = await startHolder(temporal, { ...input, acquire });
    await eventually(async () => {
      const { tickets = [] } = (await queueView(temporal.client, resource)) ?? {};
      assert.ok(tickets.some(({ waiter }) => waiter.workflowId === handle.workflowId));
    });
    return handle;
  };
  const late = await line({ timeout: 5_000 });
  const cancelled = await line();
  const terminated = await line();
  const [a, b] = [await line(), await line()];
  await cancelled.cancel();
  await terminated.terminate();
  await assertFails(late.result(), 'PermitTimeoutError', /within 5000 ms/);
  await assert.rejects(cancelled.result());
  const { tickets } = await untilWaiting(temporal.client, resource, 3); // the terminated one can't say that it left
  assert.deepEqual(
    tickets.map(({ waiter }) => waiter.workflowId),
    [terminated, a, b].map(({ workflowId }) => workflowId),
  );
  const freedMs = Date.now();
  await first.handle.signal(workflows.finish);
  await Promise.all([a.result(), b.result()]);
  const tookMs = Date.now() - freedMs;
  assert.ok(tookMs < OFFER_TIMEOUT_MS, `a turn for nobody goes to the next at once, not after ${tookMs} ms`);
  await assertSafe(temporal.client, resource, 1);
});

test('cancelled, terminated and timed out at any moment, waiters cost the others nothing', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 2 }, holdMs: 0 };
  const unlucky = Array.from({ length: 24 }, async (_, index) => {
    const handle = await startHolder(temporal, {
      ...input,
      acquire: index % 3 === 0 ? { timeout: 20 * index + 1 } : {},
    });
    await delay(index * 23);
    if (index % 3 === 1) await handle.cancel().catch(() => undefined);
    if (index % 3 === 2) await handle.terminate().catch(() => undefined);
    await handle.result().catch(() => undefined);
  });
  const lucky = Array.from({ length: 16 }, async () => (await startHolder(temporal, input)).result());
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
    // Of an end that it is not told, the queue would learn by its looks.
    const { events } = await temporal.client.workflow.getHandle(queueId(resource)).fetchHistory();
    const told = (events ?? []).some(({ workflowExecutionSignaledEventAttributes: signal }) => {
      return signal?.signalName === CLOSING && Buffer.from(signal.input?.payloads?.[0]?.data ?? []).includes(runId);
    });
    assert.ok(told, ending);
    if (ending === 'continued as new') await temporal.client.workflow.getHandle(first.workflowId).terminate();
    await assertSafe(temporal.client, resource, 1);
  }
});

test('a slot whose permit was terminated is found free within seconds', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 } };
  const first = await startHolding(temporal, input);
  const waiter = await startHolder(temporal, { ...input, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  await eventually(async () => {
    const view = await queueView(temporal.client, resource);
    assert.equal(view?.slots[0]?.[1].at, 'held');
  });
  await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).terminate();
  const freedMs = Date.now();
  await waiter.result();
  assert.ok(Date.now() - freedMs < 5_000, `took ${Date.now() - freedMs} ms`);
  await assertFails(first.handle.result(), 'PermitLostError', /terminated/);
  await assertSafe(temporal.client, resource, 1);
});

test('a terminated queue delays its waiters and blocks none; they line up in their old order', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, recheckAfter: 400 };
  const first = await startHolding(temporal, { resource, semaphore });
  const waiters: Handle[] = [];
  for (let count = 1; count <= 4; count++) {
    waiters.push(await startHolder(temporal, { resource, semaphore, holdMs: 0 }));
    await untilWaiting(temporal.client, resource, count);
  }
  await temporal.client.workflow.getHandle(queueId(resource)).terminate();
  const { tickets } = await untilWaiting(temporal.client, resource, 4);
  assert.equal(tickets.length, 4);
  await first.handle.signal(workflows.finish);
  await Promise.all(waiters.map((waiter) => waiter.result()));
  const holds = await assertSafe(temporal.client, resource, 1);
  assert.deepEqual(
    holds
      .sort((a, b) => a.fromMs - b.fromMs)
      .slice(1)
      .map(({ holder }) => holder),
    waiters.map(({ workflowId }) => workflowId),
  );
});

test('fair, no look of its own lets a waiter overtake', async () => {
  const input = { resource: temporal.resource(), semaphore: { capacity: 1, fair: true, recheckAfter: 1_000 } };
  const order = await servedInOrder(input, Array.from({ length: 12 }));
  assert.deepEqual(
    order,
    order.map((_, place) => place),
  );
});

test('fair, a queue whose worker is gone delays and does not block', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, fair: true, recheckAfter: 300 };
  const first = await startHolding(temporal, { resource, semaphore });
  const endStranded = await strandQueue(temporal, { resource, semaphore });
  const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await first.handle.signal(workflows.finish);
  await waiter.result();
  await endStranded();
  await assertSafe(temporal.client, resource, 1);
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
  await eventually(async () => assert.equal((await waiter.describe()).status.name, 'COMPLETED'), 10_000);
  await assertSafe(temporal.client, resource, 1);
});

test('lines that come and go while a slot is held find one queue, that ends soon after the hold', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: '10 minutes' as const };
  const first = await startHolding(temporal, { resource, semaphore });
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const runs = new Set<string>();
  for (let line = 0; line < 4; line++) {
    const late = await startHolder(temporal, { resource, semaphore, acquire: { timeout: 200 } });
    await assertFails(late.result(), 'PermitTimeoutError', /200 ms/);
    await delay(2_500); // longer than a queue stays that watches nothing
    const { runId, status } = await queue.describe();
    assert.equal(status.name, 'RUNNING');
    runs.add(runId);
  }
  assert.equal(runs.size, 1);
  await first.handle.signal(workflows.finish);
  await first.handle.result();
  await eventually(async () => assert.equal((await queue.describe()).status.name, 'COMPLETED'), 10_000);
});

test('a cancel request does not end the queue, nor what an operator has set', async () => {
  const resource = temporal.resource();
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  await pool.pause({ reason: 'maintenance' });
  const waiter = await startHolder(temporal, { resource, semaphore: { capacity: 1 }, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const { runId } = await queue.describe();
  await queue.cancel();
  await untilWaiting(temporal.client, resource, 1);
  assert.equal((await pool.inspect()).override?.reason, 'maintenance');
  await pool.resume();
  await waiter.result();
  assert.deepEqual(await taskFailures(temporal.client, queueId(resource), runId), []);
});

test('permits and queues do not inherit the priority of the Workflow that starts them', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const priority = { priorityKey: 5, fairnessKey: 'batch', fairnessWeight: 0.1 };
  const start = (holdMs?: number) =>
    temporal.client.workflow.start(workflows.holder, {
      ...startOptions(temporal),
      priority,
      args: [{ resource, semaphore, holdMs }],
    });
  const low = await start();
  await untilAt(low, 'holding');
  const waiter = await start(0);
  await untilWaiting(temporal.client, resource, 1);
  for (const id of [queueId(resource), permitId({ resource, slot: '0' })]) {
    const { events } = await temporal.client.workflow.getHandle(id).fetchHistory();
    const own = events?.[0]?.workflowExecutionStartedEventAttributes?.priority;
    assert.deepEqual([own?.priorityKey, own?.fairnessKey], [1, 'permits'], id);
  }
  await low.signal(workflows.finish);
  await waiter.result();
});

test('a drained slot stays out of use over any outage of the permit workers', async () => {
  const resource = temporal.resource();
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  await pool.pause();
  await eventually(async () => {
    const [slot] = (await pool.inspect()).slots;
    const leftMs = (slot?.permit?.leaseDeadline?.getTime() ?? 0) - Date.now();
    assert.ok(leftMs > 6 * 24 * 3_600_000, `${leftMs} ms left`);
  });
  await pool.resume();
});

test('waiters of an old and a new capacity share the queue, and each gets a slot that it knows', async () => {
  const resource = temporal.resource();
  const [three, five] = [{ capacity: 3 }, { capacity: 5 }];
  const holding = (semaphore: SemaphoreOptions) => startHolding(temporal, { resource, semaphore });
  const holders = await Promise.all([three, three, three].map(holding));
  holders.push(...(await Promise.all([five, five].map(holding))));
  const waiters = await Promise.all(
    [three, five, three, five].map((semaphore) => startHolder(temporal, { resource, semaphore, holdMs: 0 })),
  );
  await untilWaiting(temporal.client, resource, 4);
  const big = holders.filter(({ slot }) => Number(slot) >= 3);
  await Promise.all(big.map(({ handle }) => handle.signal(workflows.finish)));
  await Promise.all([waiters[1]?.result(), waiters[3]?.result()]); // only these may take slot 3 or 4
  await untilWaiting(temporal.client, resource, 2);
  await Promise.all(
    holders.filter((holder) => !big.includes(holder)).map(({ handle }) => handle.signal(workflows.finish)),
  );
  await Promise.all(waiters.map((waiter) => waiter.result()));
  await assertSafe(temporal.client, resource, 5);
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

test('a resource that is used from two task queues has one queue', async () => {
  const resource = temporal.resource();
  await temporal.worker({ taskQueue: `${temporal.taskQueue}-other` });
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 0 };
  await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      temporal.client.workflow.execute(workflows.holder, {
        ...startOptions(temporal),
        taskQueue: index % 2 ? temporal.taskQueue : `${temporal.taskQueue}-other`,
        args: [input],
      }),
    ),
  );
  await assertSafe(temporal.client, resource, 1);
  await eventually(async () => assert.equal(await queueView(temporal.client, resource), undefined));
});

test('a long wait costs a bounded number of events: at most 25 to park, and 16 for each recheck', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 3, recheckAfter: 500 };
  const holders = await Promise.all(Array.from({ length: 3 }, () => startHolding(temporal, { resource, semaphore })));
  const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await delay(11_000);
  const { events, looks } = await eventually(async () => {
    const { events } = await waiter.fetchHistory();
    const looks = events?.filter((event) => event.timerFiredEventAttributes).length ?? 0;
    assert.ok(looks >= 2, `${looks} rechecks`); // after 0.5 s, and after 10 s and more
    return { events, looks };
  });
  const count = events?.length ?? 0;
  console.log(`${count} events for parking and ${looks} rechecks`);
  assert.ok(count <= 25 + 16 * looks, `${count} events with ${looks} rechecks`);
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

test('a queue that nobody needs ends by itself', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 0 };
  await Promise.all(Array.from({ length: 3 }, async () => (await startHolder(temporal, input)).result()));
  await eventually(async () => assert.equal(await queueView(temporal.client, resource), undefined), 15_000);
  await assertSafe(temporal.client, resource, 1);
});
