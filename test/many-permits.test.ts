import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import type { ReportedHold } from '../scripts/support/holder-intervals';
import { acquireAll, PermitTimeoutError, SemaphoreClient, withPermits } from '../src/client';
import { accumulatorResource } from '../src/shared/key-pool';
import { assertFails, failureOf, startHolding, startOptions, untilAt } from './support/holders';
import {
  assertNoPermitLeft,
  assertSafe,
  eventually,
  permitsRunning,
  untilWaiting,
  useTemporal,
} from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

function clientOf(resource: string, capacity: number): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue: temporal.taskQueue });
}

function startMany(resource: string, capacity: number, size: number, holdMs?: number) {
  return temporal.client.workflow.start(workflows.manyHolder, {
    ...startOptions(temporal, 'many'),
    args: [{ resource, semaphore: { capacity }, holdMs }, size],
  });
}

async function assertNothingLeft(resource: string): Promise<void> {
  for (const pool of [resource, accumulatorResource(resource)]) await assertNoPermitLeft(temporal.client, pool);
}

test('an accumulator that a resize leaves with too few slots gives back and waits beside the line, until there are enough', async () => {
  const resource = temporal.resource('many');
  const semaphore = { capacity: 3, recheckAfter: '250ms' };
  const { taskQueue } = temporal;
  const pool = new SemaphoreClient(temporal.client, resource, { ...semaphore, taskQueue });
  const holder = await startHolding(temporal, { resource, semaphore });
  const held: number[] = [];
  const sets = [
    temporal.client.workflow.execute(workflows.manyHolder, {
      ...startOptions(temporal, 'many'),
      args: [{ resource, semaphore, holdMs: 0 }, 3],
    }),
    pool.withPermits(3, async (permits) => held.push(permits.length)),
  ];
  const late = assert.rejects(
    pool.withPermits(3, async () => assert.fail('too few'), { timeout: 1_000 }),
    PermitTimeoutError,
  );
  await untilWaiting(temporal.client, resource, 1);
  await pool.resize(2);
  await late;
  // Small ones are served although somebody waits for three.
  for (let count = 0; count < 3; count++) await pool.withPermit(async () => delay(10), { timeout: '1 minute' });
  assert.deepEqual(held, []);
  await pool.resize(3);
  await holder.handle.signal(workflows.finish);
  await Promise.all(sets);
  assert.deepEqual(held, [3]);
  await assertNothingLeft(resource);
});

test('callers of 1 to 4 permits on capacity 4 all get what they want, all or none, and no two block each other', async () => {
  const resource = temporal.resource('many');
  const pool = clientOf(resource, 4);
  const reported: ReportedHold[] = [];
  const sizes = [4, 3, 1, 2, 3];
  const workflow = async (size: number) => {
    const slots = await (await startMany(resource, 4, size, 20)).result();
    assert.equal(new Set(slots).size, size);
  };
  const client = async (size: number) => {
    const holds = await pool.withPermits(size, async (permits) => {
      assert.equal(new Set(permits.map(({ slot }) => slot)).size, size);
      const fromMs = Date.now();
      await delay(20);
      return permits.map(({ runId }) => ({ runId, fromMs, toMs: Date.now() }));
    });
    reported.push(...holds);
  };
  await Promise.all(sizes.flatMap((size) => [workflow(size), client(size)]));
  await assertNothingLeft(resource);
  const holds = await assertSafe(temporal.client, resource, 4, reported);
  // Those of a client that somebody else was faster with are not reported.
  assert.ok(holds.length >= 26, `${holds.length} holds`);
});

test('cancelled or late while it accumulates, a caller gives everything back, and another one may accumulate', async () => {
  const resource = temporal.resource('many');
  const { handle: blocker } = await startHolding(temporal, { resource, semaphore: { capacity: 3 } });
  const large = await startMany(resource, 3, 3);
  await untilWaiting(temporal.client, resource, 1);
  await eventually(async () => {
    assert.equal((await permitsRunning(temporal.client, resource)).length, 3, 'it keeps two while it waits');
  });
  const second = await startMany(resource, 3, 2);
  await untilWaiting(temporal.client, accumulatorResource(resource), 1);

  const late = await clientOf(resource, 3)
    .acquire({ permits: 2, timeout: 500 })
    .catch((error: unknown) => error);
  assert.ok(late instanceof PermitTimeoutError, String(late));
  assert.equal(late.resource, resource);
  assert.equal(await clientOf(resource, 3).tryAcquire({ permits: 2 }), undefined);

  await large.cancel();
  assert.ok((await failureOf(large.result())) instanceof CancelledFailure);
  assert.equal((await untilAt(second, 'holding')).slot.split(' ').length, 2);
  await Promise.all([second.signal(workflows.finish), blocker.signal(workflows.finish)]);
  await second.result();
  await assertNothingLeft(resource);
});

test('an abort while the permit that allowed to accumulate is given back leaves nothing held', async () => {
  const resource = temporal.resource('many');
  const enough = new AbortController();
  const signal: WorkflowClientInterceptor['signal'] = async (input, next) => {
    if (input.workflowExecution.workflowId.includes('~set')) enough.abort(new Error('enough'));
    await next(input);
  };
  const { connection } = temporal.client;
  const client = new Client({ connection, interceptors: { workflow: [{ signal }] } });
  const pool = new SemaphoreClient(client, resource, { capacity: 2, taskQueue: temporal.taskQueue });
  let hasRun = false;
  const work = async () => {
    hasRun = true;
  };
  await assert.rejects(pool.withPermits(2, work, { signal: enough.signal }), /enough/);
  assert.equal(hasRun, false);
  await assertNothingLeft(resource);
});

test('several of one beside one of another; more than the capacity is refused', async () => {
  const [gpus, licences] = [temporal.resource('gpus'), temporal.resource('licences')];
  const [pool, other] = [clientOf(gpus, 4), clientOf(licences, 1)];
  await withPermits([other, { of: pool, permits: 3 }], async ([licence, three]) => {
    assert.equal(licence.resource, licences);
    assert.equal(three.length, 3);
    const one: number = three.length;
    assert.ok(one);
  });
  const set = await pool.acquire({ permits: 4 });
  assert.equal(set.permits.length, 4);
  assert.equal(await pool.tryAcquire(), undefined);
  await set.release();
  await assertNothingLeft(gpus);

  await assert.rejects(pool.acquire({ permits: 5 }), /permits: expected at most 4, the capacity/);
  await assert.rejects(
    pool.withPermits(1.5, async () => 0),
    /permits: expected a whole number from 1/,
  );
  await assert.rejects(
    pool.withPermit(async () => 0, { permits: 2 }),
    /withPermits\(n, fn\) takes several/,
  );
  await assert.rejects(acquireAll([pool], { permits: 2 } as object), /the number in its entry/);
  await assertFails((await startMany(gpus, 4, 5)).result(), 'InvalidOptionsError', /expected at most 4/);
});

test('a read-write lock: readers share it, and a writer has it alone (docs/recipes.md)', async () => {
  const resource = temporal.resource('table');
  const READERS = 4;
  const table = clientOf(resource, READERS);
  let readers = 0;
  let writers = 0;
  let mostReaders = 0;
  const read = () =>
    table.withPermit(async () => {
      mostReaders = Math.max(mostReaders, ++readers);
      assert.equal(writers, 0, 'nobody writes while somebody reads');
      await delay(50);
      readers--;
    });
  const write = () =>
    table.withPermits(READERS, async () => {
      writers++;
      assert.deepEqual({ readers, writers }, { readers: 0, writers: 1 }, 'a writer is alone');
      await delay(50);
      writers--;
    });
  await Promise.all([read(), read(), read(), write(), read(), read(), write(), read()]);
  assert.ok(mostReaders > 1, 'readers share');
  await assertNothingLeft(resource);
});
