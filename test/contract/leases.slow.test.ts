import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Driver, drivers, finishAll, startHolding } from '../support/drivers';
import { useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });

test('withPermit keeps its permit past three leases, in a Workflow and in a client', async () => {
  const hold = async (driver: Driver) => {
    const resource = temporal.resource();
    const semaphore = { capacity: 1, lease: 5_000, renewEvery: 500 };
    const { caller, runId } = await startHolding(driver, { resource, semaphore });
    await delay(16_000);
    await finishAll([caller]);
    const holds = await driver.assertSafe(resource, 1);
    assert.deepEqual(
      holds.map((hold) => hold.runId),
      [runId],
    );
  };
  await Promise.all(drivers(temporal).map(hold));
});
