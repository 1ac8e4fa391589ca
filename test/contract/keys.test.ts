import assert from 'node:assert/strict';
import { keyResource, permitId } from '../../src/shared/permit-id';
import { assertEnds, contract, finishAll, startHolding } from '../support/drivers';
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

contract(temporal, 'whoever has the permit of a key has the priority of those who wait for it', async (driver) => {
  const resource = temporal.resource('keyed');
  const semaphore = { capacity: 1, perKey: 1 };
  const caller = (key: string, priorityKey: number) => ({
    resource,
    semaphore,
    acquire: { key, priority: { priorityKey } },
  });
  const { caller: first } = await startHolding(driver, caller('first', 3));
  const low = await driver.start(caller('acme', 5));
  await untilWaiting(temporal.client, resource, 1);
  const other = await driver.start(caller('other', 3));
  await untilWaiting(temporal.client, resource, 2);
  const urgent = await driver.start(caller('acme', 1));
  await eventually(async () => {
    const { tickets } = await untilWaiting(temporal.client, resource, 2);
    assert.ok(tickets.some(({ priorityKey }) => priorityKey === 1));
  });
  await finishAll([first]);
  const next = await Promise.race([low.holding().then(() => low), other.holding().then(() => other)]);
  assert.equal(next, low, 'the urgent one would wait behind the other');
  await finishAll([low, urgent, other]);
  await driver.assertSafe(resource, 1);
});
