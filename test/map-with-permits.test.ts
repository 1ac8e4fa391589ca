import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { CancelledFailure } from '@temporalio/common';
import { InvalidOptionsError, mapWithPermits, PermitPool, SemaphoreClient } from '../src/client';
import { currentFencingToken, FencingToken } from '../src/fencing';
import { permitId } from '../src/shared/permit-id';
import { assertFails, failureOf, startHolding, startOptions, untilAt } from './support/holders';
import {
  assertNoPermitLeft,
  assertSafe,
  permitsRunning,
  untilListed,
  untilWaiting,
  useTemporal,
} from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

function semaphore(resource: string, capacity = 1, perKey?: number) {
  return new SemaphoreClient(temporal.client, resource, { capacity, perKey, taskQueue: temporal.taskQueue });
}

function startMapper(input: workflows.MapperInput) {
  return temporal.client.workflow.start(workflows.mapper, { ...startOptions(temporal, 'mapper'), args: [input] });
}

function numbers(count: number): number[] {
  return [...Array(count).keys()];
}

test('a client maps 200 lazy items on capacity 3: in order, three at once, under a few permits, and gives them back', async () => {
  const resource = temporal.resource();
  let asked = 0;
  let begun = 0;
  async function* pages() {
    for (const item of numbers(200)) {
      assert.ok(asked - begun <= 6, `${asked} asked for, ${begun} begun`);
      asked++;
      yield item;
    }
  }
  const runIds = new Set<string>();
  let now = 0;
  let most = 0;
  const results = await mapWithPermits(
    pages(),
    async (item, permit, index) => {
      begun++;
      most = Math.max(most, ++now);
      runIds.add(permit.runId);
      assert.equal(String(currentFencingToken()), String(FencingToken.from(permit)));
      await delay(2);
      now--;
      return item + index;
    },
    { semaphore: semaphore(resource, 3) },
  );
  assert.deepEqual(await permitsRunning(temporal.client, resource), []);
  assert.deepEqual(
    results,
    numbers(200).map((n) => 2 * n),
  );
  assert.ok(most <= 3 && runIds.size <= 3, `${most} at once, ${runIds.size} permits`);
});

test('a client whose items release their permits early never works at more than it has', async () => {
  const client = semaphore(temporal.resource(), 2);
  await using _taken = await client.acquire();
  await using pool = new PermitPool(client);
  let [running, most] = [0, 0];
  const call = async (_item: number, permit: { release(): void }) => {
    most = Math.max(most, ++running);
    await delay(20);
    running--;
    permit.release();
    await delay(5);
  };
  await mapWithPermits(numbers(20), call, { semaphore: pool, concurrency: 2, chunk: 10 });
  assert.equal(most, 1);
});

test('a client that aborts begins nothing more, and nothing is left; a pool of its own stays open', async () => {
  const resource = temporal.resource();
  const client = semaphore(resource, 2);
  const stop = new AbortController();
  const begun: number[] = [];
  const call = async (item: number) => {
    begun.push(item);
    if (item === 5) stop.abort(new Error('enough'));
  };
  await assert.rejects(mapWithPermits(numbers(50), call, { semaphore: client, signal: stop.signal }), /enough/);
  assert.deepEqual(await permitsRunning(temporal.client, resource), []);
  assert.ok(begun.length < 10, `${begun}`);
  await using pool = new PermitPool(client);
  assert.deepEqual(await mapWithPermits([1, 2], async (n) => n, { semaphore: pool, concurrency: 1 }), [1, 2]);
  assert.equal(await pool.withPermit(async ({ slot }) => slot.length), 1);
});

test('a client whose permit is revoked: the item under it fails, the others have another permit', async () => {
  const client = semaphore(temporal.resource());
  const outcomes = await mapWithPermits(
    numbers(4),
    async (item, { slot, signal }) => {
      if (item !== 1) return item;
      await client.revoke(slot, { reason: 'drain' });
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return item;
    },
    { semaphore: client, onError: 'collect' },
  );
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.name : outcome.value)),
    [0, 'PermitLostError', 2, 3],
  );
});

test('a Workflow maps 12 items on capacity 2 under two permits; with chunk 3 under four or more', async () => {
  const [resource, chunked] = [temporal.resource(), temporal.resource('chunked')];
  const input = { semaphore: { capacity: 2 }, count: 12 };
  const mappers = [
    await startMapper({ ...input, resource }),
    await startMapper({ ...input, resource: chunked, chunk: 3 }),
  ];
  for (const mapper of mappers) assert.deepEqual(await mapper.result(), numbers(12));
  const plain = (await assertSafe(temporal.client, resource, 2)).length;
  assert.ok(plain <= 2, `${plain} permits`); // one, where the other comes late
  const inChunks = (await assertSafe(temporal.client, chunked, 2)).length;
  assert.ok(inChunks >= 4 && inChunks <= 6, `${inChunks} permits`);
});

test('a Workflow: one slot held by another keeps no item waiting; revoked, the item fails and the others go on', async () => {
  const resource = temporal.resource();
  const pool = { resource, semaphore: { capacity: 2 } };
  const other = await startHolding(temporal, pool);
  const mapper = await startMapper({ ...pool, count: 6, waitAt: 3, onError: 'collect' });
  const { slot } = await untilAt(mapper, 'holding');
  await untilWaiting(temporal.client, resource, 1); // its second lane
  await semaphore(resource, 2).revoke(slot);
  assert.deepEqual(await mapper.result(), [0, 1, 2, 'PermitLostError', 4, 5]);
  await untilWaiting(temporal.client, resource, 0);
  await other.handle.signal(workflows.finish);
});

test('a Workflow whose item releases the permit itself goes on under another one', { timeout: 60_000 }, async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1, renewEvery: '500ms' } as const };
  const start = { ...startOptions(temporal, 'mapper'), args: [input] as [typeof input] };
  assert.deepEqual(await temporal.client.workflow.execute(workflows.releasingMapper, start), [0, 1, 2, 3]);
  await untilListed(temporal.client, resource, 1);
  const { count } = await temporal.client.workflow.count(`WorkflowId = "${permitId({ resource, slot: '0' })}"`);
  assert.equal(count, 2);
});

test('a Workflow that is cancelled maps to the end where its scope can not be cancelled', async () => {
  const resource = temporal.resource();
  const tidying = await temporal.client.workflow.start(workflows.tidyingMapper, {
    ...startOptions(temporal, 'mapper'),
    args: [{ resource, semaphore: { capacity: 1 } }],
  });
  await delay(500);
  await tidying.cancel();
  assert.deepEqual(await tidying.result(), [0, 1, 2]);
});

test('a Workflow that fails at an item, or is cancelled, gives back and leaves the line', async () => {
  const resource = temporal.resource();
  const pool = { resource, semaphore: { capacity: 2 } };
  await assertFails((await startMapper({ ...pool, count: 9, failAt: 4 })).result(), 'AsAsked', /as asked/);
  await assertNoPermitLeft(temporal.client, resource);
  const other = await startHolding(temporal, pool);
  const mapper = await startMapper({ ...pool, count: 9, waitAt: 2, onError: 'collect' });
  await untilAt(mapper, 'holding');
  await untilWaiting(temporal.client, resource, 1);
  await mapper.cancel();
  assert.ok((await failureOf(mapper.result())) instanceof CancelledFailure);
  await untilWaiting(temporal.client, resource, 0);
  await other.handle.signal(workflows.finish);
});

const BAD: [string, unknown, object, RegExp][] = [
  ['items that are none', 7, {}, /items: expected an iterable, .* got 7/],
  ['a concurrency above the capacity', [], { concurrency: 3 }, /concurrency: expected a whole number from 1 to 2/],
  ['a chunk of nothing', [], { chunk: 0 }, /chunk: expected a whole number from 1, got 0/],
  ['a word for onError', [], { onError: 'ignore' }, /onError: expected "stop" or "collect", got "ignore"/],
  ['reuseFor 0', [], { reuseFor: 0 }, /reuseFor: expected a duration of 1 ms or more/],
  ['a long purpose', [], { purpose: 'x'.repeat(1_001) }, /purpose: expected a string of at most 1000 characters/],
];
for (const [what, items, options, message] of BAD) {
  test(`${what} is refused by clients and in Workflows`, async () => {
    const given = { semaphore: semaphore('pool', 2), ...options };
    await assert.rejects(
      mapWithPermits(items as number[], async () => assert.fail('it ran'), given),
      (error) => error instanceof InvalidOptionsError && message.test(error.message),
    );
    const start = { ...startOptions(temporal), args: [items, options] as [unknown, object] };
    await assertFails(temporal.client.workflow.execute(workflows.badMapper, start), 'InvalidOptionsError', message);
  });
}

test('refused too: a semaphore that is none, one with keys, a cursor below 0, and a pool that is given reuseFor', async () => {
  const refused = async (options: object, message: RegExp) =>
    await assert.rejects(
      mapWithPermits([1], async () => assert.fail('it ran'), options as { semaphore: SemaphoreClient }),
      (error) => error instanceof InvalidOptionsError && message.test(error.message),
    );
  await refused({ semaphore: {} }, /semaphore: expected a SemaphoreClient or a PermitPool/);
  await refused({ semaphore: semaphore('pool', 2, 1) }, /perKey|key/);
  await using pool = new PermitPool(semaphore('pool'));
  await refused({ semaphore: pool, reuseFor: '1s' }, /reuseFor: expected nothing: the pool has its own/);
  const unasked = (function* (): Generator<number> {
    yield assert.fail('the source was asked');
  })();
  const options = { semaphore: pool, priority: { priorityKey: -1 } };
  await assert.rejects(
    mapWithPermits(unasked, async () => {}, options),
    InvalidOptionsError,
  );
  const start = { ...startOptions(temporal), args: [[], { cursor: -1 }] as [unknown, object] };
  await assertFails(temporal.client.workflow.execute(workflows.badMapper, start), 'InvalidOptionsError', /cursor/);
});
