import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { PermitPool, SemaphoreClient } from '../../../src/client';
import { contract, finishAll } from '../../support/drivers';
import { eventually, untilWaiting, useTemporal, warnings } from '../../support/temporal';

// Whoever claims a slot that another caller does not know is told so, where an answer that it gets anyway says it.

const temporal = useTemporal({ shared: true });

/** What this process has warned of. */
const told: (Error & { code?: string })[] = [];
const hear = (warning: Error) => told.push(warning);
before(() => process.on('warning', hear));
after(() => process.off('warning', hear));

/** All that was said to callers of the resource, by Node's warnings and by the workers' log. */
function disagreements(resource: string): string[] {
  const logged = warnings.filter(({ message }) => message.startsWith(`Callers of "${resource}" disagree`));
  const ofClients = told.filter(
    ({ code, message }) => code === 'TEMPORAL_SEMAPHORE_DISAGREEMENT' && message.includes(`"${resource}"`),
  );
  return [...logged, ...ofClients].map(({ message }) => message);
}

contract(
  temporal,
  'a caller whose turn gives it a slot that another waiter lacks is told both numbers',
  async (driver) => {
    const resource = temporal.resource();
    const three = { resource, semaphore: { capacity: 3 } };
    const holders = await Promise.all([1, 2, 3].map(() => driver.start(three)));
    for (const holder of holders) await holder.holding();
    const waiter = await driver.start(three);
    await untilWaiting(temporal.client, resource, 1);
    assert.deepEqual(disagreements(resource), []);
    // In strict order it tries no slot while a queue runs.
    const fourth = await driver.start({ resource, semaphore: { capacity: 4, fair: true } });
    assert.equal((await fourth.holding()).slot, '3');
    await eventually(async () => {
      const [message, ...others] = disagreements(resource);
      assert.match(message ?? '', /: this caller has 4, another caller has 3\. .*temporal-semaphore ls/);
      assert.deepEqual(others, []);
    });
    await finishAll([...holders, fourth, waiter]);
    assert.equal(disagreements(resource).length, 1, 'those of the smaller number claim nothing that others lack');
  },
);

test('a permit pool is told by the line at which it looks anyway', async () => {
  const resource = temporal.resource();
  const { taskQueue, client } = temporal;
  const three = new SemaphoreClient(client, resource, { capacity: 3, taskQueue });
  const permits = [await three.acquire(), await three.acquire(), await three.acquire()];
  await using pool = new PermitPool(new SemaphoreClient(client, resource, { capacity: 4, taskQueue }));
  assert.equal(await pool.withPermit(({ slot }) => slot), '3');
  const fourth = three.acquire();
  await untilWaiting(client, resource, 1);
  // It looks between two calls.
  await eventually(async () => {
    await pool.withPermit(() => delay(10));
    assert.equal(disagreements(resource).length, 1);
  });
  for (const permit of permits) await permit.release();
  await (await fourth).release();
});
