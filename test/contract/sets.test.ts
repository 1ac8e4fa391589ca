import assert from 'node:assert/strict';
import { Operator } from '../../src/operator';
import { accumulatorResource } from '../../src/shared/key-names';
import { permitId, queueId } from '../../src/shared/permit-id';
import { ENQUEUE, type Ticket } from '../../src/shared/protocol';
import { assertEnds, contract, type Driver, finishAll, startHolding } from '../support/drivers';
import { operatorOf } from '../support/operators';
import { signalsOf, untilRenewedAgain } from '../support/permit-signals';
import { assertNothingLeft, clientOf } from '../support/sets';
import { assertNoPermitLeft, eventually, permitsRunning, untilWaiting, useTemporal } from '../support/temporal';

// What a caller of several permits is promised, in a Workflow and in a client alike.

const temporal = useTemporal({ shared: true });

const one = { capacity: 1 };

/** Two resources of this test's own; the first is claimed first. */
function twoResources(): [a: string, b: string] {
  return [temporal.resource('a'), temporal.resource('b')];
}

function startSet(driver: Driver, resources: string[], acquire?: { timeout: number }) {
  return driver.startSet({ pools: resources.map((resource) => ({ resource, semaphore: one })), acquire });
}

/** A set that has the first of two resources, and waits for the second, which somebody else holds. */
async function startWaitingForSecond(driver: Driver) {
  const [a, b] = twoResources();
  const { caller: other } = await startHolding(driver, { resource: b, semaphore: one });
  const set = await startSet(driver, [a, b]);
  await untilWaiting(temporal.client, b, 1);
  return { a, b, other, set };
}

contract(temporal, 'a set has its permits in the order in which its caller names the resources', async (driver) => {
  const [a, b] = twoResources();
  for (const resources of [
    [a, b],
    [b, a],
  ]) {
    const set = await startSet(driver, resources);
    const { slot, runId } = await set.holding();
    assert.equal(slot, '0 0');
    for (const [n, run] of runId.split(' ').entries()) {
      await temporal.client.workflow
        .getHandle(permitId({ resource: resources[n] as string, slot: '0' }), run)
        .describe();
    }
    await finishAll([set]);
  }
});

contract(temporal, 'a function that throws before it has made a promise gives its permits back', async (driver) => {
  const resource = temporal.resource();
  const semaphore = { capacity: 2, lease: '1 hour' } as const;
  const caller = await driver.startMany({ resource, semaphore, ending: 'throw' }, 2);
  await assertEnds(caller, 'AsAsked', /as asked/);
  assert.deepEqual((await driver.tryAcquire({ resource, semaphore }, 2)).sort(), ['0', '1']);
  await assertNothingLeft(temporal, resource);
});

contract(
  temporal,
  'while a caller waits for the second it renews the first, and keeps its age in the second line',
  async (driver) => {
    const [a, b] = twoResources();
    const { caller: blocker } = await startHolding(driver, { resource: a, semaphore: one });
    const { caller: other } = await startHolding(driver, { resource: b, semaphore: one });
    const renewed = { ...one, renewEvery: '500ms' } as const;
    const set = await driver.startSet({
      pools: [
        { resource: b, semaphore: one },
        { resource: a, semaphore: renewed },
      ],
    });
    await untilWaiting(temporal.client, a, 1);
    const beforeMs = Date.now();
    await finishAll([blocker]);
    const { tickets } = await untilWaiting(temporal.client, b, 1);
    assert.ok((tickets[0]?.sinceMs ?? beforeMs) < beforeMs, 'its age counts from before it had the first');
    const runId = await untilRenewedAgain(temporal, a);
    await finishAll([other]);
    assert.ok((await set.holding()).runId.endsWith(runId), 'the first was held all the time');
    await finishAll([set]);
  },
);

contract(
  temporal,
  'in strict order, a set lines up where others wait, also if there is a slot that they do not want',
  async (driver) => {
    const [a, b] = twoResources();
    const known = { ...one, recheckAfter: '1 hour' } as const; // it sends its ticket once
    const { caller: holder } = await startHolding(driver, { resource: b, semaphore: known });
    const waiter = await driver.start({ resource: b, semaphore: known });
    await untilWaiting(temporal.client, b, 1);
    const lineUps = async () =>
      (await signalsOf(temporal, { workflowId: queueId(b) })).filter((name) => name === ENQUEUE).length;
    const before = await lineUps();
    const set = await driver.startSet({
      pools: [
        { resource: a, semaphore: one },
        { resource: b, semaphore: { ...known, capacity: 2, fair: true } },
      ],
    });
    assert.equal((await set.holding()).slot, '0 1');
    assert.equal(await lineUps(), before + 1);
    await finishAll([set, holder]);
    await finishAll([waiter]);
    await driver.assertSafe(b, 2);
  },
);

contract(
  temporal,
  'one that is lost while another is waited for ends the wait, and the error names it',
  async (driver) => {
    const { a, b, other, set } = await startWaitingForSecond(driver);
    await operatorOf(clientOf(temporal, a)).revoke('0', { reason: 'needed elsewhere' });
    const { details } = await assertEnds(set, 'PermitLostError', /needed elsewhere/);
    assert.equal(details.resource, a);
    await untilWaiting(temporal.client, b, 0);
    await finishAll([other]);
  },
);

contract(
  temporal,
  'when maxHold ends what a caller keeps while it waits, it takes that again, and keeps its age',
  async (driver) => {
    const [a, b] = twoResources();
    const { caller: other } = await startHolding(driver, { resource: b, semaphore: one });
    const kept = { ...one, lease: 5_000, renewEvery: 1_000, maxHold: 6_000 };
    const set = await driver.startSet({
      pools: [
        { resource: a, semaphore: kept },
        { resource: b, semaphore: one },
      ],
    });
    const [before] = (await untilWaiting(temporal.client, b, 1)).tickets;
    await eventually(async () => {
      const [after] = (await untilWaiting(temporal.client, b, 1)).tickets;
      assert.notEqual(after?.id, before?.id);
      assert.equal(after?.sinceMs, before?.sinceMs);
      assert.equal((await permitsRunning(temporal.client, a)).length, 1);
    });
    // A busy machine takes longer than another maxHold to serve it.
    await set.cancel();
    await assertEnds(set, 'cancelled', /^$/);
    await finishAll([other]);
    await assertNoPermitLeft(temporal.client, a);
  },
);

contract(
  temporal,
  'the error of a timeout names the resource that was missing, and the first is free again',
  async (driver) => {
    const [a, b] = twoResources();
    const { caller: other } = await startHolding(driver, { resource: b, semaphore: one });
    for (const timeout of [0, 300]) {
      const set = await startSet(driver, [b, a], { timeout });
      const { details } = await assertEnds(set, 'PermitTimeoutError', /./);
      assert.equal(details.resource, b);
      await assertNoPermitLeft(temporal.client, a);
    }
    await finishAll([other]);
  },
);

contract(temporal, 'cancelled while it waits for the second, it gives the first back', async (driver) => {
  const { a, other, set } = await startWaitingForSecond(driver);
  await set.cancel();
  await assertEnds(set, 'cancelled', /^$/);
  await assertNoPermitLeft(temporal.client, a);
  await finishAll([other]);
});

contract(
  temporal,
  'one that is lost while the function runs cancels it, and the other is given back',
  async (driver) => {
    const [a, b] = twoResources();
    const set = await startSet(driver, [a, b]);
    await set.holding();
    await operatorOf(clientOf(temporal, b)).revoke('0');
    const { details } = await assertEnds(set, 'PermitLostError', /an operator revoked it/);
    assert.equal(details.resource, b);
    await assertNoPermitLeft(temporal.client, a);
  },
);

contract(temporal, 'a set that can not be had is refused before anything is done', async (driver) => {
  const resource = temporal.resource('a');
  const twice = await startSet(driver, [resource, resource]);
  await assertEnds(twice, 'InvalidOptionsError', /expected each resource once/);
  const tooMany = await driver.startMany({ resource, semaphore: { capacity: 4 } }, 5);
  await assertEnds(tooMany, 'InvalidOptionsError', /permits: expected at most 4, the capacity/);
  await assert.rejects(temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).describe());
});

contract(
  temporal,
  'cancelled or late while it accumulates, a caller gives everything back, and another one may accumulate',
  async (driver) => {
    const resource = temporal.resource('many');
    const semaphore = { capacity: 3 };
    const { caller: blocker } = await startHolding(driver, { resource, semaphore });
    const large = await driver.startMany({ resource, semaphore }, 3);
    await untilWaiting(temporal.client, resource, 1);
    await eventually(async () => {
      assert.equal((await permitsRunning(temporal.client, resource)).length, 3, 'it keeps two while it waits');
    });
    const second = await driver.startMany({ resource, semaphore }, 2);
    await untilWaiting(temporal.client, accumulatorResource(resource), 1);

    const late = await driver.startMany({ resource, semaphore, acquire: { timeout: 300 } }, 2);
    const { details } = await assertEnds(late, 'PermitTimeoutError', /./);
    assert.equal(details.resource, resource);

    await large.cancel();
    await assertEnds(large, 'cancelled', /^$/);
    assert.equal((await second.holding()).slot.split(' ').length, 2);
    await finishAll([second, blocker]);
    await assertNothingLeft(temporal, resource);
    await driver.assertSafe(resource, 3);
  },
);

contract(
  temporal,
  'an accumulator that a resize leaves with too few slots gives back and waits beside the line, until there are enough',
  async (driver) => {
    const resource = temporal.resource('many');
    const semaphore = { capacity: 3, recheckAfter: '250ms' } as const;
    const { caller: blocker } = await startHolding(driver, { resource, semaphore });
    const large = await driver.startMany({ resource, semaphore, holdMs: 0 }, 3);
    await untilWaiting(temporal.client, resource, 1);
    const operator = new Operator(temporal.client, resource, { capacity: 3, taskQueue: temporal.taskQueue });
    await operator.resize(2);
    const late = await driver.startMany({ resource, semaphore, acquire: { timeout: 300 } }, 3);
    await assertEnds(late, 'PermitTimeoutError', /./);
    // A small one is served although somebody waits for three.
    await finishAll([await driver.start({ resource, semaphore })]);
    await operator.resize(3);
    await finishAll([blocker]);
    await large.done();
    await assertNothingLeft(temporal, resource);
    await driver.assertSafe(resource, 3);
  },
);

contract(temporal, 'a caller that keeps a part comes before all others, whatever its priority', async (driver) => {
  const resource = temporal.resource('many');
  const semaphore = { capacity: 2 };
  const { caller: first } = await startHolding(driver, { resource, semaphore });
  const { caller: second } = await startHolding(driver, { resource, semaphore });
  const low = await driver.startMany({ resource, semaphore, acquire: { priority: { priorityKey: 5 } } }, 2);
  await untilWaiting(temporal.client, resource, 1);
  await finishAll([first]);
  await eventually(async () => {
    const [ticket] = (await untilWaiting(temporal.client, resource, 1)).tickets;
    assert.equal(ticket?.kept, 1);
  });
  const urgent = await driver.start({ resource, semaphore, acquire: { priority: { priorityKey: 1 } } });
  await untilWaiting(temporal.client, resource, 2);
  await finishAll([second]);
  await finishAll([low, urgent]);
  await assertNothingLeft(temporal, resource);
  const last = (await driver.assertSafe(resource, 2)).sort((a, b) => a.fromMs - b.fromMs).at(-1);
  assert.ok(last && urgent.had(last), 'the two slots would idle behind the urgent one');
});

/** Two of priority 5 and 1 that each want both permits of a resource, of which somebody else has all. */
async function startBatchAndAlarm(driver: Driver) {
  const resource = temporal.resource('many');
  const semaphore = { capacity: 2 };
  const others = [
    (await startHolding(driver, { resource, semaphore })).caller,
    (await startHolding(driver, { resource, semaphore })).caller,
  ];
  const start = (priorityKey: number) =>
    driver.startMany({ resource, semaphore, acquire: { priority: { priorityKey } } }, 2);
  const batch = await start(5);
  const [before] = (await untilWaiting(temporal.client, resource, 1)).tickets;
  const alarm = await start(1);
  return { resource, others, batch, alarm, before };
}

/** Waits until the only waiter of the resource is another one, or has come again. */
async function untilAnotherWaits(resource: string, before: Ticket | undefined): Promise<Ticket | undefined> {
  return await eventually(async () => {
    const [ticket] = (await untilWaiting(temporal.client, resource, 1)).tickets;
    assert.notEqual(ticket?.id, before?.id);
    return ticket;
  });
}

contract(
  temporal,
  'a caller that wants several and has none gives way to one of better priority, and then keeps its age',
  async (driver) => {
    const { resource, others, batch, alarm, before } = await startBatchAndAlarm(driver);
    const first = await untilAnotherWaits(resource, before);
    assert.equal(first?.priorityKey, 1);
    await untilWaiting(temporal.client, accumulatorResource(resource), 1);
    await finishAll(others);
    await alarm.holding();
    // The queue may show the alarm's last turn for a moment still.
    await eventually(async () => {
      const again = await untilAnotherWaits(resource, first);
      assert.deepEqual([again?.priorityKey, again?.sinceMs], [5, before?.sinceMs]);
    });
    await finishAll([alarm]);
    await finishAll([batch]);
    await assertNothingLeft(temporal, resource);
    await driver.assertSafe(resource, 2);
  },
);

contract(
  temporal,
  'a caller that has given way waits on when the other one leaves, and leaves nothing when it is cancelled then',
  async (driver) => {
    const { resource, others, batch, alarm, before } = await startBatchAndAlarm(driver);
    const first = await untilAnotherWaits(resource, before);
    await alarm.cancel();
    await assertEnds(alarm, 'cancelled', /^$/);
    const again = await untilAnotherWaits(resource, first);
    assert.deepEqual([again?.priorityKey, again?.sinceMs], [5, before?.sinceMs]);
    const next = await driver.startMany(
      { resource, semaphore: { capacity: 2 }, acquire: { priority: { priorityKey: 1 } } },
      2,
    );
    await untilAnotherWaits(resource, again);
    await batch.cancel();
    await assertEnds(batch, 'cancelled', /^$/);
    await untilWaiting(temporal.client, accumulatorResource(resource), 0);
    await finishAll(others);
    await finishAll([next]);
    await assertNothingLeft(temporal, resource);
    await driver.assertSafe(resource, 2);
  },
);

contract(
  temporal,
  'a caller that keeps a permit of another resource has the priority of those who wait for the several, and goes first',
  async (driver) => {
    const [a, b] = twoResources();
    const semaphore = { capacity: 2 };
    const { caller: other } = await startHolding(driver, { resource: b, semaphore });
    const { caller: another } = await startHolding(driver, { resource: b, semaphore });
    const pools = [
      { resource: a, semaphore: one },
      { resource: b, semaphore, permits: 2 },
    ];
    const set = await driver.startSet({ pools, acquire: { priority: { priorityKey: 5 } } });
    const [before] = (await untilWaiting(temporal.client, b, 1)).tickets;
    const alarm = await driver.startMany({ resource: b, semaphore, acquire: { priority: { priorityKey: 1 } } }, 2);
    await eventually(async () => {
      const [ticket] = (await untilWaiting(temporal.client, b, 1)).tickets;
      assert.deepEqual([ticket?.id, ticket?.priorityKey], [before?.id, 1]);
    });
    await finishAll([other, another]);
    await set.holding();
    await finishAll([set]);
    await finishAll([alarm]);
    await assertNothingLeft(temporal, b);
  },
);
