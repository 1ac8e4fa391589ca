import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { permitId } from '../../src/shared/permit-id';
import { PERMIT_STATUS, type PermitStatus } from '../../src/shared/protocol';
import { assertEnds, contract, contractOfAll, drivers, finishAll, startHolding } from '../support/drivers';
import { assertReleased } from '../support/holders';
import { assertNoPermitLeft, assertSafe, until, untilWaiting, useTemporal } from '../support/temporal';
import type { PoolInput } from '../support/workflows';

const temporal = useTemporal({ shared: true });

contractOfAll(temporal, '16 contenders on capacity 3 all get their turn, never more than 3 at once', async (driver) => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 3 }, holdMs: 30 };
  const contenders = await Promise.all(Array.from({ length: 16 }, () => driver.start(input)));
  await Promise.all(contenders.map((caller) => caller.done()));
  assert.equal((await driver.assertSafe(resource, 3)).length, 16);
});

test('8 contenders on capacity 1, clients and Workflows, all get their turn, never more than 1 at once', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 30 };
  const both = drivers(temporal);
  const contenders = await Promise.all([...both, ...both, ...both, ...both].map((driver) => driver.start(input)));
  await Promise.all(contenders.map((caller) => caller.done()));
  const reported = both.flatMap((driver) => driver.reports);
  assert.equal((await assertSafe(temporal.client, resource, 1, reported)).length, 8);
});

contract(temporal, 'the permit is gone when withPermit returns, and when its function throws', async (driver) => {
  const resource = temporal.resource();
  for (const ending of ['return', 'fail'] as const) {
    const { caller, slot, runId } = await startHolding(driver, { resource, semaphore: { capacity: 1 }, ending });
    await caller.finish();
    if (ending === 'fail') await assertEnds(caller, 'AsAsked', /as asked/);
    else await caller.done();
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot }), runId);
    assert.equal((await permit.describe()).status.name, 'COMPLETED');
    await assertReleased(permit);
  }
});

contract(temporal, 'tryAcquire takes each named slot once, then gives undefined', async (driver) => {
  const slots = ['gpu-a', 'gpu-b', 'gpu-c'];
  const got = await driver.tryAcquire({ resource: temporal.resource(), semaphore: { slots } }, 4);
  assert.deepEqual(got.slice(0, 3).sort(), slots);
  assert.equal(got[3], undefined);
});

contractOfAll(
  temporal,
  'an acquire with a timeout fails when all is held, and succeeds when something is free',
  async (driver) => {
    const resource = temporal.resource();
    const semaphore = { capacity: 1 };
    const first = await startHolding(driver, { resource, semaphore });
    for (const [timeout, message] of [
      [0, /is free: all slots are held. Try later/],
      [400, /came free within 400 ms/],
    ] as const) {
      const startedMs = performance.now();
      const late = await driver.start({ resource, semaphore, acquire: { timeout } });
      const { details } = await assertEnds(late, 'PermitTimeoutError', message);
      assert.deepEqual(details, { resource, timeoutMs: timeout });
      assert.ok(performance.now() - startedMs >= timeout, 'it gave up too early');
    }
    await finishAll([first.caller]);
    await assertNoPermitLeft(temporal.client, resource); // that of a limited Workflow ends just after the Workflow
    const timely = await driver.start({ resource, semaphore, acquire: { timeout: 0 }, holdMs: 1 });
    await timely.done();
    assert.equal((await driver.assertSafe(resource, 1)).length, 2);
  },
);

contractOfAll(temporal, 'a caller cancelled while it waits ends at once and claims nothing', async (driver) => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 } };
  const first = await startHolding(driver, input);
  const waiter = await driver.start(input);
  await untilWaiting(temporal.client, resource, 1);
  await waiter.cancel();
  assert.equal((await waiter.outcome()).name, 'cancelled', 'while the other still holds');
  await untilWaiting(temporal.client, resource, 0);
  await finishAll([first.caller]);
  const holds = await driver.assertSafe(resource, 1);
  assert.deepEqual(holds.map(first.caller.had), [true]);
});

contractOfAll(
  temporal,
  'cancelled or timed out at any moment, a caller leaves neither permit nor waiter, and costs the others nothing',
  async (driver) => {
    const resource = temporal.resource();
    const input = { resource, semaphore: { capacity: 2 }, holdMs: 20 };
    const unlucky = Array.from({ length: 16 }, async (_, index) => {
      const timeout = index % 2 ? 25 * index : undefined;
      const caller = await driver.start({ ...input, acquire: { timeout } });
      if (timeout === undefined) {
        await delay(12 * index);
        await caller.cancel();
      }
      return (await caller.outcome()).name;
    });
    const lucky = await Promise.all(Array.from({ length: 6 }, () => driver.start(input)));
    const ends = new Set(await Promise.all(unlucky));
    await Promise.all(lucky.map((caller) => caller.done()));
    assert.ok(ends.has('cancelled'));
    for (const end of ends) assert.ok(['cancelled', 'done', 'PermitTimeoutError'].includes(end), end);
    await driver.assertSafe(resource, 2);
  },
);

contract(temporal, 'withPermit renews its permit again and again', async (driver) => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: 10_000, renewEvery: 300 };
  const { caller, slot, runId } = await startHolding(driver, { resource, semaphore });
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot }), runId);
  const ends = new Set<number>();
  await until(async () => ends.add((await permit.query<PermitStatus>(PERMIT_STATUS)).deadlineMs).size > 4);
  assert.deepEqual([...ends], [...ends].sort(), 'each renewal moves the end of the lease');
  await finishAll([caller]);
});

const BAD: [string, Partial<PoolInput>, RegExp][] = [
  ['capacity 0', { semaphore: { capacity: 0 } }, /capacity: expected a whole number from 1 to 1000, got 0/],
  ['both capacity and slots', { semaphore: { capacity: 1, slots: ['a'] } }, /exactly one of/],
  ['an empty resource', { resource: '' }, /resource: expected a non-empty string, got ""/],
  ['":" in a slot', { semaphore: { slots: ['a:b'] } }, /slot name: expected a name without ":", got "a:b"/],
  [
    'a renewal not below the lease',
    { semaphore: { capacity: 1, lease: '1s', renewEvery: '1s' } },
    /renewEvery: expected less than/,
  ],
  ['a negative timeout', { acquire: { timeout: -1 } }, /timeout: expected a duration of 0 ms or more/],
];
for (const [what, bad, message] of BAD) {
  contract(temporal, `${what} is refused by name`, async (driver) => {
    const input = { resource: 'a resource', semaphore: { capacity: 1 }, ...bad };
    await assertEnds(await driver.start(input), 'InvalidOptionsError', message);
  });
}
