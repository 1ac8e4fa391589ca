import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import { listHolders, Operator } from '../../src/operator';
import { permitId, queueId } from '../../src/shared/permit-id';
import { QUEUE_VIEW } from '../../src/shared/protocol';
import { startHolder, startHolding, untilAt } from '../support/holders';
import { untilStates } from '../support/inspected';
import { operatorOf } from '../support/operators';
import { endQueue, eventually, untilWaiting, useTemporal, warnings } from '../support/temporal';
import * as workflows from '../support/workflows';

const temporal = useTemporal({ shared: true });

function semaphore(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, { capacity: 3, taskQueue, ...options });
}

function assertWithin(actual: Date | undefined, fromMs: number, toMs: number): void {
  const actualMs = actual?.getTime() ?? 0;
  assert.ok(fromMs <= actualMs && actualMs <= toMs, `${actualMs} is not from ${fromMs} to ${toMs}`);
}

test('a pool that nobody uses is free, and looking at it starts nothing', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource);
  assert.deepEqual(await operatorOf(pool).inspect(), {
    resource,
    capacity: 3,
    held: 0,
    free: 3,
    waiting: 0,
    slots: ['0', '1', '2'].map((slot) => ({ slot, state: 'free' })),
    waiters: [],
    queue: 'none',
    recent: [],
  });
  await assert.rejects(temporal.client.workflow.getHandle(queueId(resource)).describe());
});

test('a pool that is known by its name alone has the size that its queue says now, not the one that it said once', async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const byName = new Operator(client, resource, { taskQueue });
  for (const capacity of [1, 2]) {
    const pool = semaphore(resource, { capacity });
    const held = await Promise.all(Array.from({ length: capacity }, () => pool.acquire()));
    const waiting = pool.acquire();
    await untilWaiting(client, resource, 1);
    await eventually(async () => assert.equal((await byName.inspect({ recent: 0 })).capacity, capacity));
    await Promise.all(held.map((permit) => permit.release()));
    await (await waiting).release();
  }
  await byName.pause();
  const paused = semaphore(resource, { capacity: 2 });
  await untilStates(paused, /^0 drained, 1 drained$/);
  assert.equal(await paused.tryAcquire(), undefined);
  await byName.resume();
});

test('known by its name, a pool has the size that its permits state, whatever a queue that is gone said last', async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const byName = new Operator(client, resource, { taskQueue });
  const small = semaphore(resource, { capacity: 1 });
  const held = await small.acquire();
  const waiting = small.acquire();
  await untilWaiting(client, resource, 1);
  assert.equal((await byName.inspect({ recent: 0, search: false })).capacity, 1);
  await held.release();
  await (await waiting).release();
  await endQueue(client, resource);
  const large = semaphore(resource, { capacity: 2 });
  const permits = [await large.acquire(), await large.acquire()];
  const { capacity, slots } = await byName.inspect({ recent: 0, search: false });
  assert.deepEqual(
    [capacity, slots.map(({ slot, state }) => [slot, state])],
    [
      2,
      [
        ['0', 'held'],
        ['1', 'held'],
      ],
    ],
  );
  for (const permit of permits) await permit.release();
  assert.equal((await byName.inspect({ recent: 0, search: false })).capacity, 2, 'what they stated last');
});

test('known by its name alone, a resource without a queue is paused, resized and resumed by the capacity that its permits state', async () => {
  const resource = temporal.resource();
  const permit = await semaphore(resource).acquire();
  const byName = async () => {
    const operator = new Operator(temporal.client, resource);
    const { capacity, held } = await operator.inspect({ recent: 0 });
    assert.deepEqual([capacity, held], [3, 1]);
    return operator;
  };
  const operator = await eventually(byName); // visibility lists the permit late
  await operator.pause();
  assert.equal(await semaphore(resource).tryAcquire(), undefined);
  await operator.resume();
  await endQueue(temporal.client, resource);
  const another = await eventually(byName);
  assert.equal((await another.resize(1)).capacity, 1);
  assert.equal((await another.resize(3)).capacity, undefined, 'as it is deployed');
  await permit.release();
});

test('resized back, a resource is known by its size, although more slots are still held', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 1 });
  const first = await pool.acquire();
  await operatorOf(pool).resize(2);
  const added = await pool.acquire();
  assert.equal(added.slot, '1');
  await operatorOf(pool).resize(1);
  await endQueue(temporal.client, resource);
  const byName = new Operator(temporal.client, resource);
  const shown = async () => {
    const { capacity, held, free, slots } = await byName.inspect({ recent: 0 });
    return [capacity, held, free, slots.map(({ slot }) => slot)];
  };
  await eventually(async () => assert.deepEqual(await shown(), [1, 2, 0, ['0', '1']]));
  assert.deepEqual(await shown(), [1, 2, 0, ['0', '1']], 'without another search');
  await added.release();
  assert.deepEqual(await shown(), [1, 1, 0, ['0']]);
  await first.release();
});

test('of slots with names, a permit tells no operator the others: those that are held are shown, and no order is taken', async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const semaphore = new SemaphoreClient(client, resource, { slots: ['0', 'x'], taskQueue });
  const permits = await Promise.all([semaphore.acquire(), semaphore.acquire()]);
  for (const permit of permits) if (permit.slot === '0') await permit.release();
  await eventually(async () => {
    const inspection = await new Operator(temporal.client, resource).inspect({ recent: 0 });
    const { capacity, held, free, waiting, slots } = inspection;
    assert.deepEqual([capacity, held, free, waiting], [undefined, 1, undefined, 0]);
    assert.deepEqual(
      slots.map(({ slot, state }) => [slot, state]),
      [['x', 'held']],
    );
  });
  await assert.rejects(
    new Operator(client, resource).pause(),
    /Neither a queue nor a permit of .* says how many slots/,
  );
  for (const permit of permits) if (permit.slot === 'x') await permit.release();
});

test('it shows each holder, each waiter in order, and the last holds with how they ended', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  const input = { resource, semaphore: { capacity: 2, lease: 60_000 } };
  const past = await startHolding(temporal, { ...input, acquire: { purpose: 'was here' } });
  const client = await semaphore(resource, { capacity: 2, lease: '20s' }).acquire({ purpose: 'by hand' });
  await temporal.client.workflow.getHandle(permitId({ resource, slot: past.slot })).terminate();
  await past.handle.result().catch(() => undefined);
  const holder = await startHolding(temporal, { ...input, acquire: { purpose: 'nightly' } });
  const normal = await startHolder(temporal, { ...input, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  const stop = new AbortController();
  const waiting = pool.acquire({ signal: stop.signal, priority: { priorityKey: 5 } }).catch(() => undefined);
  await untilWaiting(temporal.client, resource, 2);
  const urgent = await startHolder(temporal, {
    ...input,
    holdMs: 0,
    acquire: { priority: { priorityKey: 1, fairnessKey: 'team-a' } },
  });
  await untilWaiting(temporal.client, resource, 3);

  const { slots, waiters, queue, override } = await operatorOf(pool).inspect();
  assert.equal(queue, 'running');
  assert.equal(override, undefined);
  const held = slots.find(({ slot }) => slot === holder.slot)?.permit ?? assert.fail();
  const run = await holder.handle.describe();
  assert.deepEqual(
    { ...held, since: undefined, leaseDeadline: undefined, renewedAt: undefined },
    {
      workflowId: permitId({ resource, slot: holder.slot }),
      runId: holder.runId,
      taskQueue: temporal.taskQueue,
      holder: { workflowId: run.workflowId, runId: run.runId, workflowType: 'holder' },
      purpose: 'nightly',
      slots: 2,
      since: undefined,
      leaseDeadline: undefined,
      renewedAt: undefined,
    },
  );
  assert.ok(held.renewedAt && held.renewedAt >= held.since);
  const byHand = slots.find(({ slot }) => slot === client.slot)?.permit ?? assert.fail();
  assert.deepEqual([byHand.runId, byHand.purpose], [client.runId, 'by hand']);
  assert.deepEqual(byHand.holder, { identity: temporal.client.options.identity });

  assert.deepEqual(
    waiters.map(({ place, priorityKey, fairnessKey, identity }) => [place, priorityKey, fairnessKey, identity]),
    [
      [1, 1, 'team-a', undefined],
      [2, 3, undefined, undefined],
      [3, 5, undefined, temporal.client.options.identity],
    ],
  );
  assert.deepEqual(
    waiters.slice(0, 2).map(({ workflowId }) => workflowId),
    [urgent.workflowId, normal.workflowId],
  );
  assert.match(waiters[2]?.workflowId ?? '', /^permit-waiter:/);

  await eventually(async () => {
    const { recent } = await operatorOf(pool).inspect();
    assert.deepEqual(
      recent.map(({ slot, runId, purpose, outcome }) => [slot, runId, purpose, outcome]),
      [[past.slot, past.runId, 'was here', 'terminated']],
    );
    assert.ok((recent[0]?.to ?? 0) > (recent[0]?.from ?? 0));
  });
  await eventually(async () => {
    const holders = await listHolders(temporal.client, resource);
    assert.deepEqual(holders.map(({ permit }) => permit.runId).sort(), [holder.runId, client.runId].sort());
  });

  stop.abort();
  await client.release();
  await holder.handle.signal(workflows.finish);
  await Promise.all([waiting, normal.result(), urgent.result()]);
  // All by the server's clock. A renewal moves a deadline, up to the end of the permit.
  for (const [permit, leaseMs] of [
    [held, 60_000],
    [byHand, 20_000],
  ] as const) {
    const { startTime, closeTime } = await temporal.client.workflow
      .getHandle(permit.workflowId, permit.runId)
      .describe();
    assert.deepEqual(permit.since, startTime);
    assertWithin(permit.leaseDeadline, startTime.getTime() + leaseMs, (closeTime?.getTime() ?? 0) + leaseMs);
  }
  const { startTime, closeTime } = await urgent.describe();
  assertWithin(waiters[0]?.since, startTime.getTime(), closeTime?.getTime() ?? 0);
  await eventually(async () => {
    const { recent } = await operatorOf(pool).inspect({ recent: 2 });
    assert.deepEqual(
      recent.map(({ outcome }) => outcome),
      ['released', 'released'],
    );
  });
});

for (const [what, by] of [
  ['a Workflow', 'workflow'],
  ['a client', 'client'],
] as const) {
  test(`${what} that has just been served waits no longer, though its queue has not heard of it`, async () => {
    const resource = temporal.resource();
    const pool = semaphore(resource, { capacity: 1 });
    const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
    const holder =
      by === 'workflow' ? await startHolder(temporal, { resource, semaphore: { capacity: 1 } }) : undefined;
    const acquiring = by === 'client' ? pool.acquire() : undefined;
    await untilWaiting(temporal.client, resource, 1);
    assert.equal((await operatorOf(pool).inspect({ recent: 0 })).waiters.length, 1);
    await handle.signal(workflows.finish);
    if (holder) await untilAt(holder, 'holding');
    const permit = await acquiring;
    const { waiters, slots } = await operatorOf(pool).inspect({ recent: 0 });
    assert.deepEqual([waiters, slots[0]?.state], [[], 'held']);
    await permit?.release();
    await holder?.signal(workflows.finish);
    await holder?.result();
  });
}

test("a rollout with two capacities is shown, and logged by the queue; an operator's resize is no disagreement", async () => {
  const resource = temporal.resource();
  const disagreement = async () =>
    (await operatorOf(semaphore(resource, { capacity: 2 })).inspect({ recent: 0 })).disagreement;
  const old = [1, 2].map(() => startHolding(temporal, { resource, semaphore: { capacity: 2 } }));
  const [first, second] = await Promise.all(old);
  await operatorOf(semaphore(resource, { capacity: 2 })).resize(1);
  const waiter = await startHolder(temporal, { resource, semaphore: { capacity: 2 }, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  assert.equal(await disagreement(), undefined);
  const logged = () => warnings.filter(({ meta }) => meta?.resource === resource);
  assert.deepEqual(logged(), []);
  await operatorOf(semaphore(resource, { capacity: 2 })).resize(2);

  const permit = await semaphore(resource, { capacity: 3 }).acquire(); // the new deployment takes slot 2
  const { identity } = temporal.client.options;
  const isOld = [first?.handle.workflowId, second?.handle.workflowId];
  const [most, one] = (await operatorOf(semaphore(resource, { capacity: 3 })).inspect()).disagreement ?? [];
  assert.deepEqual(
    [most?.slots, most?.count, isOld.includes(most?.by), one],
    [2, 3, true, { slots: 3, count: 1, by: identity }],
  );
  const stop = new AbortController();
  const small = semaphore(resource, { capacity: 1 }).acquire({ signal: stop.signal });
  const waiting = small.catch(() => undefined);
  await eventually(async () => {
    const [{ message, meta } = assert.fail('nothing is logged')] = logged();
    assert.match(message, /disagree/);
    assert.match(String(meta?.slots), /^2, 1$/);
  });
  stop.abort();
  await waiting;
  await permit.release();
  await eventually(async () => assert.equal(await disagreement(), undefined));
  for (const holder of [first, second]) await holder?.handle.signal(workflows.finish);
  await waiter.result();
});

test('looking leaves no trace in what it looks at', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 1 });
  const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const waiter = await startHolder(temporal, { resource, semaphore: { capacity: 1 }, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  const lengths = () =>
    Promise.all(
      [permitId({ resource, slot: '0' }), queueId(resource), handle.workflowId, waiter.workflowId].map(
        async (id) => (await temporal.client.workflow.getHandle(id).describe()).historyLength,
      ),
    );
  // The queue asks the permit now and then whether it still runs: between two such queries nothing may change.
  await eventually(async () => {
    const before = await lengths();
    for (let count = 0; count < 3; count++) await operatorOf(pool).inspect();
    assert.deepEqual(await lengths(), before);
  });
  await handle.signal(workflows.finish);
  await waiter.result();
});

test('a query of a permit can be spared: the lease is then the one that was told last, while that lasts, or none', async () => {
  const resource = temporal.resource();
  const permit = await semaphore(resource, { capacity: 1, lease: '2s', renewEvery: '500ms' }).acquire();
  const look = async (operator: Operator, mayAsk: boolean) => {
    const { slots } = await operator.inspect({ recent: 0, servesMs: 100, mayAskPermit: () => mayAsk });
    return slots[0]?.permit ?? assert.fail();
  };
  const operator = () => new Operator(temporal.client, resource, { capacity: 1 });
  const { leaseSpared, leaseDeadline } = await look(operator(), false);
  assert.deepEqual([leaseSpared, leaseDeadline], [true, undefined]);
  const knowing = operator();
  const asked = await look(knowing, true);
  assert.ok(asked.leaseDeadline && !asked.leaseSpared);
  assert.deepEqual((await look(knowing, false)).leaseDeadline, asked.leaseDeadline);
  await delay(2_100); // it has been renewed since
  const late = await look(knowing, false);
  assert.deepEqual([late.leaseSpared, late.leaseDeadline], [true, undefined]);
  await permit.release();
});

test('without a worker it says so in time, and leaves out what only workers know', async () => {
  const resource = temporal.resource();
  const taskQueue = `${temporal.taskQueue}-gone`;
  const permits = await temporal.worker({ taskQueue });
  const pool = semaphore(resource, { capacity: 2, taskQueue });
  const input = { resource, semaphore: { capacity: 2, taskQueue } };
  const holders = [await startHolding(temporal, input), await startHolding(temporal, input)];
  const waiter = await startHolder(temporal, { ...input, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  await permits.stop();
  // What nobody limits ends when the server gives up, some seconds later.
  const bare = temporal.client.workflow.getHandle(queueId(resource)).query(QUEUE_VIEW);
  const unlimited = bare.then(
    () => assert.fail('a worker answers'),
    () => assert.fail('it waits for as long as the server does'),
  );
  unlimited.catch(() => undefined);
  const { slots, queue, waiters } = await Promise.race([operatorOf(pool).inspect(), unlimited]);
  assert.equal(queue, 'silent');
  assert.deepEqual(waiters, []);
  for (const { state, permit } of slots) {
    assert.equal(state, 'held');
    assert.equal(permit?.leaseDeadline, undefined);
    assert.ok(permit?.holder.workflowId);
  }
  await temporal.worker({ taskQueue });
  await Promise.all(holders.map(({ handle }) => handle.signal(workflows.finish)));
  await waiter.result();
});

test('a resource is not confused with one whose name begins like it', async () => {
  const resource = temporal.resource();
  const other = `${resource}:a`;
  await semaphore(other).withPermit(async () => delay(10));
  await semaphore(resource).withPermit(async () => delay(10), { purpose: 'ours' });
  await eventually(async () => {
    const { recent } = await operatorOf(semaphore(resource)).inspect();
    assert.deepEqual(
      recent.map(({ purpose }) => purpose),
      ['ours'],
    );
  });
});

test('a name that a query of visibility cannot have is found all the same', async () => {
  const resources = [temporal.resource('a"quote'), temporal.resource('a\\stroke'), temporal.resource(`a'%_"b`)];
  for (const resource of resources) {
    const pool = semaphore(resource);
    await pool.withPermit(async () => delay(10), { purpose: 'past' });
    const permit = await pool.acquire();
    const byName = new Operator(temporal.client, resource, { taskQueue: temporal.taskQueue });
    await eventually(async () => {
      byName.addHeld(await listHolders(temporal.client, resource));
      const { slots, recent } = await byName.inspect({ recent: 5 });
      assert.deepEqual(
        [slots.flatMap(({ slot, permit }) => permit && slot), recent.map(({ purpose }) => purpose)],
        [slots.map(({ slot }) => (slot === permit.slot ? slot : undefined)), ['past']],
      );
    });
    await permit.release();
  }
});

test('bad options are refused before any call', async () => {
  const pool = semaphore('pool');
  await assert.rejects(
    operatorOf(pool).inspect({ recent: -1 }),
    /recent: expected a whole number from 0 to 100, got -1/,
  );
  await assert.rejects(operatorOf(pool).revoke('a:b'), /slot name: expected a name without ":"/);
  await assert.rejects(
    operatorOf(pool).resize(0),
    /capacity: expected a whole number from 1 to 1000 \(to give none, use pause\), got 0/,
  );
  await assert.rejects(
    operatorOf(semaphore('pool', { capacity: undefined, slots: ['a', 'b'] })).resize(3),
    /from 1 to 2 \(named/,
  );
  await assert.rejects(operatorOf(pool).pause({ ifVersion: -1 }), /ifVersion: expected a whole number from 0/);
});
