import assert from 'node:assert/strict';
import { Operator } from '../../src/operator';
import { keyResource } from '../../src/shared/key-names';
import { permitId } from '../../src/shared/permit-id';
import { assertEnds, contract, contractOfAll, finishAll, startHolding } from '../support/drivers';
import { states } from '../support/inspected';
import { clientOf } from '../support/sets';
import { assertNoPermitLeft, eventually, permitsRunning, untilWaiting, useTemporal } from '../support/temporal';

// What a caller for a key is promised, in a Workflow and in a client alike.

const temporal = useTemporal({ shared: true });

contract(temporal, 'a key that is full holds no slot of the whole, and its timeout names it', async (driver) => {
  const resource = temporal.resource('keyed');
  const semaphore = { capacity: 2, perKey: 1 };
  const caller = (key: string, timeout?: number) => ({ resource, semaphore, acquire: { key, timeout } });
  const { caller: first } = await startHolding(driver, caller('acme'));
  const late = await assertEnds(await driver.start(caller('acme', 300)), 'PermitTimeoutError', /./);
  assert.equal(late.details.resource, keyResource(resource, 'acme'));

  const waiting = await driver.start(caller('acme'));
  await untilWaiting(temporal.client, keyResource(resource, 'acme'), 1);
  const { caller: other } = await startHolding(driver, caller('other')); // another key has its permit beside them
  const full = await assertEnds(await driver.start(caller('third', 0)), 'PermitTimeoutError', /./);
  assert.equal(full.details.resource, resource);
  await eventually(async () => {
    assert.deepEqual(await permitsRunning(temporal.client, keyResource(resource, 'third')), [], 'it gave its key back');
  });
  await finishAll([first, other]);
  const { slot, runId } = await waiting.holding();
  const { status } = await temporal.client.workflow.getHandle(permitId({ resource, slot }), runId).describe();
  assert.equal(status.name, 'RUNNING', 'what it holds is a permit of the whole');
  await finishAll([waiting]);
  for (const key of ['acme', 'other']) await assertNoPermitLeft(temporal.client, keyResource(resource, key));
  await driver.assertSafe(resource, 2);
});

contract(temporal, 'a missing key, and the name of a key as a resource, are refused', async (driver) => {
  const resource = temporal.resource('keyed');
  const keyed = { capacity: 1, perKey: 1 };
  const plain = { capacity: 1 };
  const refused = async (name: string, semaphore: typeof plain, message: RegExp, key?: string) =>
    await assertEnds(
      await driver.start({ resource: name, semaphore, acquire: { key } }),
      'InvalidOptionsError',
      message,
    );
  await refused(resource, keyed, /expected a key/);
  await refused(resource, plain, /has no perKey/, 'acme');
  await refused(keyResource(resource, 'acme'), plain, /a name without "~key:"/);
  await assert.rejects(clientOf(temporal, resource, keyed).tryAcquire(), /expected a key/);
});

contract(
  temporal,
  'whoever has the permit of a key and none of the whole gives way to a better priority, and then keeps its age',
  async (driver) => {
    const resource = temporal.resource('keyed');
    const semaphore = { capacity: 1, perKey: 1 };
    const caller = (key: string, priorityKey: number) => ({
      resource,
      semaphore,
      acquire: { key, priority: { priorityKey } },
    });
    const { caller: first } = await startHolding(driver, caller('first', 3));
    const batch = await driver.start(caller('acme', 5));
    const [before] = (await untilWaiting(temporal.client, resource, 1)).tickets;
    const alarm = await driver.start(caller('acme', 1));
    await eventually(async () => {
      const { tickets } = await untilWaiting(temporal.client, resource, 1);
      assert.equal(tickets[0]?.priorityKey, 1);
      assert.notEqual(tickets[0]?.id, before?.id);
    });
    await untilWaiting(temporal.client, keyResource(resource, 'acme'), 1);
    await finishAll([first]);
    await alarm.holding();
    const { tickets } = await untilWaiting(temporal.client, keyResource(resource, 'acme'), 1);
    assert.ok(tickets.some(({ priorityKey, sinceMs }) => priorityKey === 5 && sinceMs === before?.sinceMs));
    await finishAll([alarm]);
    await finishAll([batch]);
    for (const key of ['acme', 'first']) await assertNoPermitLeft(temporal.client, keyResource(resource, key));
    await assertNoPermitLeft(temporal.client, resource);
    await driver.assertSafe(resource, 1);
  },
);

contractOfAll(
  temporal,
  'an operator changes how many permits a key has: more within the total, fewer, and back',
  async (driver) => {
    const resource = temporal.resource('keyed');
    const semaphore = { capacity: 4, perKey: 2 };
    const { client, taskQueue } = temporal;
    const acme = new Operator(client, resource, { key: 'acme', perKey: 2, taskQueue });
    const whole = new Operator(client, resource, { capacity: 4, taskQueue });
    const untilSeen = async (operator: Operator, held: number, waiting: number) =>
      await eventually(async () => {
        const seen = await operator.inspect({ recent: 0 });
        assert.deepEqual([seen.held, seen.waiting], [held, waiting], `${operator.resource}: ${states(seen)}`);
      });
    const start = async () => await driver.start({ resource, semaphore, acquire: { key: 'acme' } });
    const former = await Promise.all(Array.from({ length: 5 }, start));
    await untilSeen(acme, 2, 3);
    const { version } = await acme.resize(5, { reason: 'a bigger plan' });
    await untilSeen(acme, 5, 0);
    await untilSeen(whole, 4, 1);
    assert.equal((await acme.resize(1, { ifVersion: version })).capacity, 1);
    const next = await start();
    await finishAll(former);
    await next.holding();
    await eventually(async () => assert.equal(states(await acme.inspect({ recent: 0 })), '0 held, 1 drained'));
    const last = await start();
    await untilSeen(acme, 1, 1);
    await untilSeen(whole, 1, 0);
    assert.equal((await acme.resize(2)).capacity, undefined, 'as declared');
    await untilSeen(acme, 2, 0);
    await finishAll([next, last]);
    assert.equal((await acme.inspect({ recent: 0 })).override, undefined);
    await assertNoPermitLeft(client, keyResource(resource, 'acme'));
    await driver.assertSafe(resource, 4);
  },
);
