import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { mostAtOnce, overlaps, readHoldIntervals } from '../../scripts/support/holder-intervals';
import { SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import { StaleOverrideError } from '../../src/operator';
import { queueId } from '../../src/shared/permit-id';
import { startHolder } from '../support/holders';
import { untilAllWait, untilStates } from '../support/inspected';
import { operatorOf } from '../support/operators';
import { assertNoPermitLeft, eventually, until, untilListed, useTemporal } from '../support/temporal';

const temporal = useTemporal();

function semaphore(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, { capacity: 3, taskQueue, ...options });
}

test('resized 3 to 5 to 2, paused and resumed under 6 contenders: never more than allowed, and nobody is lost', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource);
  let stopped = false;
  const served: { slot: string; order: string }[] = [];
  /** The order under which a contender comes. */
  let order = '3';
  const servedOfTwo = () => served.filter((hold) => hold.order === '2').map(({ slot }) => slot);
  const contender = async () => {
    while (!stopped) {
      const came = order;
      const handle = await startHolder(temporal, { resource, semaphore: { capacity: 3 }, holdMs: 50 });
      const { slot = '' } = await handle.result();
      served.push({ slot, order: came });
    }
  };
  const contenders = Promise.all(Array.from({ length: 6 }, contender));
  await until(() => served.length > 0);

  const five = await operatorOf(pool).resize(5, { reason: 'rush' });
  assert.deepEqual(five, { version: five.version, capacity: 5, paused: false, reason: 'rush' });
  await until(() => new Set(served.map(({ slot }) => slot)).size === 5); // all five are used
  const grown = await operatorOf(pool).inspect({ recent: 0 });
  assert.deepEqual([grown.capacity, grown.override], [5, five]);

  const two = await operatorOf(pool).resize(2);
  assert.ok(two.version > five.version);
  const shrunk = await untilStates(pool, /^0 \w+, 1 \w+, 2 drained$/);
  assert.deepEqual([shrunk.capacity, shrunk.override], [2, two]);
  await assert.rejects(operatorOf(pool).resize(4, { ifVersion: five.version }), (error) => {
    assert.ok(error instanceof StaleOverrideError);
    assert.deepEqual([error.resource, error.ifVersion, error.current], [resource, five.version, two]);
    return true;
  });
  order = '2';
  await until(() => servedOfTwo().length >= 2);

  const pause = await operatorOf(pool).pause({ reason: 'maintenance', ifVersion: two.version });
  assert.deepEqual(pause, { version: pause.version, capacity: 2, paused: true, reason: 'maintenance' });
  await untilStates(pool, /^0 drained, 1 drained, 2 drained$/);
  const { waiters } = await untilAllWait(pool, 6);
  assert.deepEqual(
    waiters.map(({ place }) => place),
    waiters.map((_, index) => index + 1),
  );
  const before = served.length;
  await delay(500);
  assert.equal(served.length, before, 'a paused pool serves nobody');

  const resumed = await operatorOf(pool).resume();
  assert.deepEqual(resumed, { version: resumed?.version, capacity: 2, paused: false });
  await until(() => served.length >= before + 4);
  order = '3 again';
  const slots = new Set(servedOfTwo());
  const ended = await operatorOf(pool).resize(3);
  assert.deepEqual(ended, { version: ended.version, paused: false });
  stopped = true;
  await contenders;
  await assertNoPermitLeft(temporal.client, resource);
  await untilListed(temporal.client, resource, 5);
  await eventually(async () => assert.equal((await operatorOf(pool).inspect()).queue, 'none'));

  // With the holds of the queue, which drains slots by holding them itself.
  const all = await readHoldIntervals(temporal.client, resource);
  assert.deepEqual(overlaps(all), []);
  assert.deepEqual([...slots].sort(), ['0', '1'], 'who came once it was shrunk had one of two slots');
  const holds = all.filter(({ holder }) => holder !== queueId(resource));
  assert.equal(holds.length, served.length);
  assert.ok(mostAtOnce(holds) <= 5);
});

test('a pause whose end comes while no worker runs ends when one does; with no end it outlasts one with an end', async () => {
  const resource = temporal.resource();
  const taskQueue = `${temporal.taskQueue}-${resource}`;
  const pool = semaphore(resource, { capacity: 1, taskQueue });
  const first = await temporal.worker({ taskQueue });
  await operatorOf(pool).pause({ reason: 'by an operator' });
  const { reason, pausedUntil } = await operatorOf(pool).pause({ until: new Date(Date.now() + 60_000), reason: '429' });
  assert.deepEqual([reason, pausedUntil], ['by an operator', undefined]);
  await operatorOf(pool).resume();
  const untilMs = Date.now() + 15_000; // a busy machine has stopped the worker by then
  await operatorOf(pool).pause({ until: new Date(untilMs) });
  await untilStates(pool, /^0 drained$/);
  await first.stop();
  await delay(untilMs - Date.now() + 500);
  assert.equal(await pool.tryAcquire(), undefined, 'nobody gives the slot back yet');
  await temporal.worker({ taskQueue });
  await untilStates(pool, /^0 free$/); // though nobody asks for it
  await (await pool.acquire()).release();
  assert.equal((await operatorOf(pool).inspect({ recent: 0 })).override, undefined);
});
