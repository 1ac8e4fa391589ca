import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Priority } from '@temporalio/common';
import { eventsOfRuns, type HistoryEvent } from '../../scripts/support/history-events';
import { PermitTimeoutError, SemaphoreClient } from '../../src/client';
import { queueId } from '../../src/shared/permit-id';
import type { QueueInput } from '../../src/shared/protocol';
import { ENQUEUE, type Ticket, TURN, type Turn } from '../../src/shared/protocol';
import { payload } from '../reliability/chaos/checks/queue-order';
import { assertEnds, type Caller, contract, drivers, finishAll, startHolding } from '../support/drivers';
import { assertSafe, until, untilWaiting, useTemporal } from '../support/temporal';
import type { HolderInput } from '../support/workflows';

const temporal = useTemporal({ shared: true });

/**
 * The order in which the queue gave the first turns, by the places of its waiters in age. It is not the order of holds:
 * on a busy machine a waiter may use its turn after the one behind it.
 */
async function turnOrder(resource: string): Promise<number[]> {
  const tickets = new Map<string, number>();
  const events = await eventsOfRuns(temporal.client, queueId(resource));
  for (const event of events) {
    const started = event.workflowExecutionStartedEventAttributes;
    const arrived = event.workflowExecutionSignaledEventAttributes;
    for (const { id, sinceMs } of payload<QueueInput>(started?.input?.payloads)?.tickets ?? [])
      tickets.set(id, sinceMs);
    if (arrived?.signalName === ENQUEUE) {
      const ticket = payload<Ticket>(arrived.input?.payloads);
      if (ticket) tickets.set(ticket.id, ticket.sinceMs);
    }
  }
  const turns = turnsIn(events).filter(({ slot }) => slot !== undefined);
  const byAge = [...tickets].sort(([, a], [, b]) => a - b).map(([id]) => id);
  return [...new Set(turns.map(({ ticketId }) => byAge.indexOf(ticketId)))];
}

/** The messages of a queue to its waiters. */
function turnsIn(events: readonly HistoryEvent[]): Turn[] {
  return events.flatMap((event) => {
    const sent = event.signalExternalWorkflowExecutionInitiatedEventAttributes;
    return (sent?.signalName === TURN && payload<Turn>(sent.input?.payloads)) || [];
  });
}

/** Waits until the queue that runs now has given this many waiters a sign of life. */
async function untilAnswered(resource: string, count: number): Promise<void> {
  await until(async () => {
    const turns = turnsIn(await eventsOfRuns(temporal.client, queueId(resource)));
    const answered = turns.filter(({ waiting }) => waiting).map(({ ticketId }) => ticketId);
    return new Set(answered).size === count;
  });
}

/** Clients and Workflows, in turns, line up one after the other behind a held slot, which is freed when all wait. */
async function servedInOrder(input: HolderInput, priorities: Priority[]): Promise<number[]> {
  const { resource } = input;
  const both = drivers(temporal);
  const first = await startHolding(both[0], input);
  const waiters: Caller[] = [];
  for (const [place, priority] of priorities.entries()) {
    waiters.push(await both[place % 2 === 0 ? 0 : 1].start({ ...input, holdMs: 0, acquire: { priority } }));
    await untilWaiting(temporal.client, resource, waiters.length);
  }
  await finishAll([first.caller]);
  await Promise.all(waiters.map((waiter) => waiter.done()));
  const reported = both.flatMap((driver) => driver.reports);
  await assertSafe(temporal.client, resource, 1, reported);
  return await turnOrder(resource);
}

for (const fair of [false, true]) {
  test(`clients and Workflows wait in one line, by priority and arrival (fair: ${fair})`, async () => {
    // On a busy machine the queue may be silent for seconds, and a waiter that asks it then tries a slot by itself.
    const input = { resource: temporal.resource(), semaphore: { capacity: 1, fair, recheckAfter: '1 hour' as const } };
    const keys = [3, 5, 1, 3, undefined, 5, 1, 4, 3, 2];
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
}

test('two fairness keys of weight 1 and 3 share turns 1 to 3', async () => {
  const input = { resource: temporal.resource(), semaphore: { capacity: 1, fair: true } };
  const keys = Array.from({ length: 12 }, (_, place) =>
    place % 3 === 0 ? { fairnessKey: 'light', fairnessWeight: 1 } : { fairnessKey: 'heavy', fairnessWeight: 3 },
  );
  const order = await servedInOrder(input, keys);
  const whileBothWaited = order.slice(0, 8).map((place) => keys[place]?.fairnessKey);
  assert.equal(whileBothWaited.filter((key) => key === 'heavy').length, 6, whileBothWaited.join(' '));
});

contract(
  temporal,
  'waiters that time out or are cancelled leave the line, and the rest keep their places',
  async (driver) => {
    const resource = temporal.resource();
    const input = { resource, semaphore: { capacity: 1 } };
    const first = await startHolding(driver, input);
    const lineUp = async (place: number) => {
      const waiter = await driver.start({ ...input, holdMs: 0 });
      await untilWaiting(temporal.client, resource, place);
      return waiter;
    };
    const [cancelled, a] = [await lineUp(1), await lineUp(2)];
    const late = await driver.start({ ...input, acquire: { timeout: '3s' } });
    await untilWaiting(temporal.client, resource, 3);
    const b = await driver.start({ ...input, holdMs: 0 });
    await assertEnds(late, 'PermitTimeoutError', /within 3 s/);
    await untilWaiting(temporal.client, resource, 3);
    await cancelled.cancel();
    assert.equal((await cancelled.outcome()).name, 'cancelled');
    await untilWaiting(temporal.client, resource, 2);
    await finishAll([first.caller]);
    await Promise.all([a, b].map((waiter) => waiter.done()));
    await driver.assertSafe(resource, 1);
    assert.deepEqual(await turnOrder(resource), [1, 3]);
  },
);

contract(
  temporal,
  'a terminated queue delays its waiters and blocks none; they line up in their old order',
  async (driver) => {
    const resource = temporal.resource();
    const semaphore = { capacity: 1, recheckAfter: 400 };
    const first = await startHolding(driver, { resource, semaphore });
    const waiters: Caller[] = [];
    for (let count = 1; count <= 3; count++) {
      waiters.push(await driver.start({ resource, semaphore, holdMs: 0 }));
      await untilWaiting(temporal.client, resource, count);
    }
    const queue = temporal.client.workflow.getHandle(queueId(resource));
    const { runId } = await queue.describe();
    await queue.terminate();
    await until(async () => (await queue.describe()).runId !== runId);
    await untilAnswered(resource, 3); // a waiter to which the queue owes an answer tries the slot by itself
    await finishAll([first.caller]);
    await Promise.all(waiters.map((waiter) => waiter.done()));
    await driver.assertSafe(resource, 1);
    assert.deepEqual(await turnOrder(resource), [0, 1, 2]);
  },
);

contract(
  temporal,
  'waiters of an old and a new capacity share the queue, and each gets a slot that it knows',
  async (driver) => {
    const resource = temporal.resource();
    const recheckAfter = '1 hour'; // nobody asks the queue for anything but a turn
    const [small, big] = [
      { capacity: 1, recheckAfter },
      { capacity: 2, recheckAfter },
    ] as const;
    const holders = [
      await startHolding(driver, { resource, semaphore: small }),
      await startHolding(driver, { resource, semaphore: big }),
    ] as const;
    assert.deepEqual([holders[0].slot, holders[1].slot], ['0', '1']);
    const [early, later] = [
      await driver.start({ resource, semaphore: small, holdMs: 0 }),
      await driver.start({ resource, semaphore: big, holdMs: 0 }),
    ];
    await untilWaiting(temporal.client, resource, 2);
    await finishAll([holders[1].caller]);
    await later.done(); // only it may take slot 1
    await untilWaiting(temporal.client, resource, 1);
    await finishAll([holders[0].caller]);
    await early.done();
    const turns = turnsIn(await eventsOfRuns(temporal.client, queueId(resource)));
    // A turn that is not answered at once may be told again.
    const waiters = new Set(turns.filter(({ slot }) => slot === '1').map(({ ticketId }) => ticketId));
    assert.equal(waiters.size, 1, 'a turn for a slot that the waiter does not know');
    await driver.assertSafe(resource, 2);
  },
);

contract(temporal, 'a line of maxWaiting takes no more, says so at once, and loses nobody', async (driver) => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1, recheckAfter: 500 }, holdMs: 0 };
  const first = await startHolding(driver, { ...input, holdMs: undefined });
  const second = await driver.start({ ...input, acquire: { maxWaiting: 3 } });
  await untilWaiting(temporal.client, resource, 1);
  for (const refused of [
    await driver.start({ ...input, acquire: { maxWaiting: 1 } }),
    await driver.startMany({ ...input, acquire: { maxWaiting: 1 } }, 1),
  ]) {
    const { details } = await assertEnds(refused, 'LineFullError', /the queue is full: maxWaiting is 1/);
    assert.deepEqual(details, { resource, maxWaiting: 1, superseded: false });
  }
  const third = await driver.start({ ...input, acquire: { maxWaiting: 3 } });
  await untilWaiting(temporal.client, resource, 2);
  // The queue dies, and with it the line. All who wait line up anew, in whatever order: here each has room.
  await temporal.client.workflow.getHandle(queueId(resource)).terminate();
  const fourth = await driver.start({ ...input, acquire: { maxWaiting: 3 } });
  await untilWaiting(temporal.client, resource, 3);
  await finishAll([first.caller]);
  await Promise.all([second, third, fourth].map((waiter) => waiter.done()));
  await driver.assertSafe(resource, 1);
});

contract(
  temporal,
  'where the oldest is dropped, a later caller takes the place of the one that waits, and of no holder',
  async (driver) => {
    const resource = temporal.resource();
    const acquire = { maxWaiting: 1, whenFull: 'drop-oldest' } as const;
    const input = { resource, semaphore: { capacity: 1, fair: true, recheckAfter: 500 }, acquire, holdMs: 0 };
    const running = await startHolding(driver, { ...input, holdMs: undefined });
    let waiting = await driver.start(input);
    await untilWaiting(temporal.client, resource, 1);
    for (const startNext of [() => driver.start(input), () => driver.startMany(input, 1)]) {
      const next = await startNext();
      const { details } = await assertEnds(
        waiting,
        'LineFullError',
        /A later caller has taken this one's place in the queue/,
      );
      assert.deepEqual(details, { resource, maxWaiting: 1, superseded: true });
      await untilWaiting(temporal.client, resource, 1);
      waiting = next;
    }
    // The queue dies, and with it the line: who waits lines up again, and stays the newest.
    await temporal.client.workflow.getHandle(queueId(resource)).terminate();
    await untilWaiting(temporal.client, resource, 1);
    const lower = await driver.start({ ...input, acquire: { ...acquire, priority: { priorityKey: 4 } } });
    const { details } = await assertEnds(lower, 'LineFullError', /the queue is full: maxWaiting is 1/);
    assert.deepEqual(details, { resource, maxWaiting: 1, superseded: false });
    await finishAll([running.caller]);
    await waiting.done();
    await driver.assertSafe(resource, 1);
  },
);

test('in strict order, a client that does not wait overtakes nobody', async () => {
  const resource = temporal.resource();
  const options = { capacity: 1, taskQueue: temporal.taskQueue, fair: true };
  const semaphore = new SemaphoreClient(temporal.client, resource, options);
  for (let round = 0; round < 3; round++) {
    const held = await semaphore.acquire();
    const waiting = semaphore.acquire();
    await untilWaiting(temporal.client, resource, 1);
    await held.release();
    const tries = round === 0 ? semaphore.acquire({ timeout: 0 }).catch(noneInTime) : semaphore.tryAcquire();
    assert.equal(await tries, undefined);
    await (await waiting).release();
  }
});

function noneInTime(error: unknown): undefined {
  assert.ok(error instanceof PermitTimeoutError, String(error));
}

contract(temporal, 'in strict order, a caller that does not wait has a slot for which nobody waits', async (driver) => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1, fair: true } };
  const { caller } = await startHolding(driver, input);
  const waiter = await driver.start({ ...input, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  await finishAll([caller]);
  await waiter.done(); // the queue stays for a while
  // Each try gives the queue a second to answer: a busy machine may take longer.
  await until(async () => (await driver.tryAcquire(input, 1))[0] === '0');
});
