import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, WorkflowNotFoundError } from '@temporalio/client';
import { NoAnswerError, PermitLostError, SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import { ForeignWorkflowError, NotHeldError, Operator, StaleOverrideError } from '../../src/operator';
import { permitId, queueId } from '../../src/shared/permit-id';
import { ENQUEUE } from '../../src/shared/protocol';
import { assertFails, startHolder, startHolding, startOptions, untilAt } from '../support/holders';
import { states, untilAllWait, untilStates } from '../support/inspected';
import { operatorOf } from '../support/operators';
import { assertSafe, eventually, queueView, untilWaiting, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

const temporal = useTemporal({ shared: true });

function semaphore(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, { capacity: 3, taskQueue, ...options });
}

test("a revoked Workflow's function is cancelled and told why, and the slot goes to the next", async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 1 } };
  const pool = semaphore(resource, { capacity: 1 });
  const { handle, runId } = await startHolding(temporal, { ...input, acquire: { purpose: 'long work' } });
  const next = await startHolder(temporal, { ...input, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  const revoked = await operatorOf(pool).revoke('0', { reason: 'node drain' });
  assert.deepEqual([revoked.runId, revoked.purpose], [runId, 'long work']);
  const { status } = await temporal.client.workflow.getHandle(revoked.workflowId, runId).describe();
  assert.equal(status.name, 'COMPLETED', 'it resolves when the permit has ended');
  const failure = await assertFails(handle.result(), 'PermitLostError', /an operator revoked it \(node drain\)/);
  assert.deepEqual((failure.details?.[0] as { reason?: string } | undefined)?.reason, 'node drain');
  await next.result();
  await assertSafe(temporal.client, resource, 1);
});

test("a revoked client's signal aborts with the reason", async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource);
  const losing = pool.withPermit(async (permit) => {
    await operatorOf(pool).revoke(permit.slot, { runId: permit.runId, reason: 'node drain' });
    if (!permit.signal.aborted) await new Promise((resolve) => permit.signal.addEventListener('abort', resolve));
  });
  await assert.rejects(losing, (error) => {
    assert.ok(error instanceof PermitLostError);
    assert.deepEqual([error.how, error.reason], ['revoked', 'node drain']);
    return true;
  });
});

test('when a pause resolves, no free slot can be had any more', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 10 });
  await using held = await pool.acquire();
  await operatorOf(pool).pause();
  assert.equal(await pool.tryAcquire(), undefined);
  const out = (await operatorOf(pool).inspect({ recent: 0 })).slots.map(({ slot, state }) =>
    slot === held.slot ? 'own' : state,
  );
  assert.equal(out.filter((state) => state === 'drained').length, 9, out.join(' '));
  await operatorOf(pool).resume();
});

test('what nobody holds, or another run than was named, is not revoked', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 1 });
  await assert.rejects(operatorOf(pool).revoke('0'), (error) => {
    assert.ok(error instanceof NotHeldError);
    assert.deepEqual([error.resource, error.slot, error.runId], [resource, '0', undefined]);
    assert.match(error.message, /No caller holds slot "0"/);
    return true;
  });
  const former = await pool.acquire();
  await former.release();
  const permit = await pool.acquire();
  await assert.rejects(operatorOf(pool).revoke('0', { runId: former.runId }), NotHeldError);
  await permit.renew();
  await permit.release();
  await assert.rejects(operatorOf(pool).revoke('0'), NotHeldError);
});

test("a Workflow of another type under a permit's or the queue's ID gets no order, and the error says how to terminate it", async () => {
  const resource = temporal.resource();
  const ids = [permitId({ resource, slot: '0' }), queueId(resource)] as const;
  const foreign = await Promise.all(
    ids.map((workflowId) => temporal.client.workflow.start('Invoice', { workflowId, taskQueue: `${resource}-gone` })),
  );
  const refused = (workflowId: string) => (error: unknown) => {
    assert.ok(error instanceof ForeignWorkflowError, String(error));
    assert.deepEqual([error.workflowId, error.type], [workflowId, 'Invoice']);
    assert.match(error.message, /^permit\S+ is a Workflow of type "Invoice".*temporal workflow terminate -w .* -r /);
    return true;
  };
  for (const operator of [operatorOf(semaphore(resource)), new Operator(temporal.client, resource, { capacity: 1 })]) {
    await assert.rejects(operator.revoke('0'), refused(ids[0]));
    await assert.rejects(operator.pause(), refused(ids[1]));
    await assert.rejects(operator.resize(2), refused(ids[1]));
    await assert.rejects(operator.resume(), refused(ids[1]));
  }
  await assert.rejects(new Operator(temporal.client, resource).pause(), refused(ids[1]));
  for (const handle of foreign) {
    assert.equal((await handle.describe()).historyLength, 2, 'nothing was sent to it');
    await handle.terminate();
  }
});

test('without a worker an order fails in time', async () => {
  const resource = temporal.resource();
  const taskQueue = `${temporal.taskQueue}-gone`;
  const pool = semaphore(resource, { taskQueue });
  const permit = await semaphore(resource, { taskQueue, lease: '2 minutes' }).acquire();
  await assert.rejects(operatorOf(pool).revoke(permit.slot, { timeout: 700 }), (error) => {
    assert.ok(error instanceof NoAnswerError);
    assert.equal(error.timeoutMs, 700);
    return true;
  });
  await assert.rejects(operatorOf(pool).pause({ timeout: 700 }), NoAnswerError);
  await temporal.worker({ taskQueue });
  await permit.release();
  await operatorOf(pool).resume();
});

/** Which slots are in which state, as in `"0 held, 1 drained"`. */

test('a pause with nobody there lasts, and what ends the claim of a drained slot does not end the drain', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  const before = await pool.acquire();
  await operatorOf(pool).pause();
  const first = await untilStates(pool, new RegExp(`${1 - Number(before.slot)} drained`));
  assert.match(states(first), new RegExp(`${before.slot} held`));
  await before.release();
  const { slots } = await untilStates(pool, /^0 drained, 1 drained$/);
  const runs = slots.map(({ permit }) => permit?.runId);
  assert.deepEqual(slots[0]?.permit?.holder.workflowId, queueId(resource));
  assert.equal(await pool.tryAcquire(), undefined);
  await delay(3_000); // longer than an idle queue stays
  await operatorOf(pool).revoke('0');
  await temporal.client.workflow.getHandle(permitId({ resource, slot: '1' })).terminate();
  await eventually(async () => {
    const again = (await operatorOf(pool).inspect()).slots;
    assert.deepEqual(
      again.map(({ state, permit }) => [state, runs.includes(permit?.runId)]),
      [
        ['drained', false],
        ['drained', false],
      ],
    );
  });
  const stop = new AbortController();
  const waiting = pool.acquire({ signal: stop.signal });
  await untilAllWait(pool, 1);
  assert.equal(await operatorOf(pool).resume(), undefined);
  await (await waiting).release();
});

test('what a terminated queue had drained is free again after the next order', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  await operatorOf(pool).pause();
  await untilStates(pool, /^0 drained, 1 drained$/);
  await temporal.client.workflow.getHandle(queueId(resource)).terminate();
  const lost = await operatorOf(pool).inspect();
  assert.deepEqual([states(lost), lost.override, lost.queue], ['0 drained, 1 drained', undefined, 'none']);
  const one = await operatorOf(pool).resize(1);
  await untilStates(pool, /^0 free, 1 drained$/);
  const permit = await pool.acquire();
  assert.equal(permit.slot, '0');
  await permit.release();
  await temporal.client.workflow.getHandle(queueId(resource)).terminate();
  const unanswered = new Client({
    connection: temporal.client.connection,
    interceptors: { workflow: [{ query: () => Promise.reject(new WorkflowNotFoundError('too slow', '', '')) }] },
  });
  await new Operator(unanswered, resource, { capacity: 2, taskQueue: temporal.taskQueue }).resume();
  await untilStates(pool, /^0 free, 1 free$/);
  assert.ok(one.version > 0);
});

test('what a terminated queue had drained goes to the first who waits for it', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  await operatorOf(pool).pause();
  await untilStates(pool, /^0 drained, 1 drained$/);
  await temporal.client.workflow.getHandle(queueId(resource)).terminate();
  const waiters = [await startHolder(temporal, { resource, semaphore: { capacity: 2 } })];
  await untilAt(waiters[0] ?? assert.fail(), 'holding');
  waiters.push(await startHolder(temporal, { resource, semaphore: { capacity: 2 } }));
  for (const waiter of waiters) {
    await untilAt(waiter, 'holding');
    await waiter.signal(workflows.finish);
    await waiter.result();
  }
});

test('named slots shrink to the first ones; fair acquirers take added slots, too', async () => {
  const named = semaphore(temporal.resource(), { capacity: undefined, slots: ['a', 'b', 'c'] });
  await operatorOf(named).resize(1);
  await untilStates(named, /^a free, b drained, c drained$/);
  const a = await named.acquire();
  assert.equal(a.slot, 'a');
  await a.release();
  await operatorOf(named).resize(3);

  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 1, fair: true });
  await operatorOf(pool).resize(3);
  await untilStates(pool, /^0 free, 1 free, 2 free$/); // shown before anybody has used them
  const permits = await Promise.all([pool.acquire(), pool.acquire(), pool.acquire()]);
  assert.deepEqual(permits.map(({ slot }) => slot).sort(), ['0', '1', '2']);
  const fourth = await startHolder(temporal, { resource, semaphore: { capacity: 1 } });
  await untilAllWait(pool, 1);
  await permits[2]?.release();
  await eventually(async () => assert.equal((await fourth.query(workflows.stage)).slot, permits[2]?.slot));
  await operatorOf(pool).resize(1);
  await fourth.signal(workflows.finish);
  await fourth.result();
  await Promise.all(permits.map((permit) => permit.release()));
  await untilStates(pool, /^0 free$/);
});

test('when a resize resolves, no waiter has a turn any more for a slot that was added', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 1 });
  await using _held = await pool.acquire();
  await operatorOf(pool).resize(2);
  // A waiter that does not use its turn.
  const sleeper = await temporal.client.workflow.start(workflows.sleeper, { ...startOptions(temporal), args: [1] });
  const waiter = { workflowId: sleeper.workflowId, runId: sleeper.firstExecutionRunId };
  const ticket = { id: randomUUID(), waiter, slots: 1, sinceMs: Date.now() };
  await temporal.client.workflow.getHandle(queueId(resource)).signal(ENQUEUE, ticket);
  const added = async () => new Map((await queueView(temporal.client, resource))?.slots).get('1')?.at;
  await eventually(async () => assert.equal(await added(), 'offered'));
  await operatorOf(pool).resize(1);
  assert.notEqual(await added(), 'offered');
  await sleeper.terminate();
});

test('a holder pauses its pool until a time: nobody is served before, and it goes on by itself', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  const held = await pool.acquire();
  const start = (untilMs: number, holds?: boolean) =>
    temporal.client.workflow.execute(workflows.pauser, {
      ...startOptions(temporal, 'pauser'),
      args: [{ resource, semaphore: { capacity: 2 } }, untilMs, holds],
    });
  const farMs = Date.now() + 3_600_000;
  await start(farMs);
  const paused = await untilStates(pool, new RegExp(`${1 - Number(held.slot)} drained`));
  const { override } = paused;
  assert.deepEqual(override, { version: override?.version, paused: true, pausedUntil: new Date(farMs), reason: '429' });
  assert.match(states(paused), new RegExp(`${held.slot} held`), 'who holds goes on holding');
  await start(farMs - 1_000, false);
  assert.deepEqual(
    await operatorOf(pool).pause({ until: new Date(farMs - 500) }),
    override,
    'a shorter pause changes nothing',
  );
  const waiting = pool.acquire();
  await untilAllWait(pool, 1);
  await held.release();
  await untilStates(pool, /^0 drained, 1 drained$/);
  await operatorOf(pool).resume();
  await (await waiting).release();

  const soonMs = Date.now() + 4_000; // an order comes sooner
  const { pausedUntil } = await operatorOf(pool).pause({ until: new Date(soonMs) });
  assert.equal(pausedUntil?.getTime(), soonMs);
  await untilStates(pool, /^0 drained, 1 drained$/);
  const next = await pool.acquire();
  const { slots } = await operatorOf(pool).inspect({ recent: 0 });
  const since = slots.find(({ slot }) => slot === next.slot)?.permit?.since;
  assert.ok(since && since.getTime() >= soonMs, `served at ${since?.toISOString()}, paused until ${soonMs}`);
  await next.release();
  await untilStates(pool, /^0 free, 1 free$/);
  assert.equal((await operatorOf(pool).inspect({ recent: 0 })).override, undefined);
});

test('a resize with an end: what was set before is set again by the queue itself, and a waiter has the slot then', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource);
  await operatorOf(pool).resize(2, { reason: 'one is broken' });
  await untilStates(pool, /^0 free, 1 free, 2 drained$/);
  const soonMs = Date.now() + 4_000; // an order comes sooner
  const resized = await operatorOf(pool).resize(1, { until: new Date(soonMs), reason: 'a demo' });
  assert.deepEqual(resized, {
    version: resized.version,
    capacity: 1,
    capacityUntil: new Date(soonMs),
    before: { capacity: 2, reason: 'one is broken' },
    paused: false,
    reason: 'a demo',
  });
  const first = await pool.acquire();
  const second = await pool.acquire();
  const { slots, override } = await operatorOf(pool).inspect({ recent: 0 });
  const since = slots.find(({ slot }) => slot === second.slot)?.permit?.since;
  assert.ok(since && since.getTime() >= soonMs, `served at ${since?.toISOString()}, resized until ${soonMs}`);
  assert.deepEqual([override?.capacity, override?.reason, override?.capacityUntil], [2, 'one is broken', undefined]);
  await first.release();
  await second.release();
  await operatorOf(pool).resize(3);
  await untilStates(pool, /^0 free, 1 free, 2 free$/);
});

test('a pause that ended before it began, or never could, is refused before anything is sent', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource);
  for (const until of [new Date(Date.now() - 1), new Date('soon'), new Date(8e15), 5, 'tomorrow', null] as Date[]) {
    const expected = /until: expected a Date in the future, at most 10 years ahead/;
    await assert.rejects(operatorOf(pool).pause({ until }), expected);
    await assert.rejects(operatorOf(pool).resize(2, { until }), expected);
  }
  const bad = await temporal.client.workflow.start(workflows.pauser, {
    ...startOptions(temporal, 'pauser'),
    args: [{ resource, semaphore: { capacity: 3 } }, Date.now() - 60_000, false],
  });
  await assertFails(bad.result(), 'InvalidOptionsError', /until: expected a Date in the future/);
  assert.equal((await operatorOf(pool).inspect({ recent: 0 })).queue, 'none');
});

test('nothing malformed changes what is set', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource);
  const { version } = await operatorOf(pool).resize(2, { ifVersion: 0 });
  await assert.rejects(operatorOf(pool).pause({ ifVersion: 0 }), StaleOverrideError);
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  const farMs = Date.now() + 3_600_000;
  const malformed = [undefined, 'x', {}, { slots: 3 }, { slots: 0, paused: true }, { slots: ['a'], capacity: 2 }];
  const ends = [
    { capacityUntilMs: farMs },
    { paused: true, capacityUntilMs: farMs },
    { capacity: 2, capacityUntilMs: '' },
  ];
  for (const bad of [...malformed, ...ends.map((it) => ({ slots: 3, ...it }))]) {
    await assert.rejects(queue.executeUpdate('override', { args: [bad] }), (error: Error) => {
      assert.match(String((error.cause as Error | undefined)?.message), /expected slots/);
      return true;
    });
  }
  assert.equal((await operatorOf(pool).inspect()).override?.version, version);
  await operatorOf(pool).resize(3, { ifVersion: version });
  await assert.rejects(operatorOf(pool).pause({ ifVersion: version }), (error) => {
    assert.ok(error instanceof StaleOverrideError);
    assert.equal(error.current, undefined);
    assert.match(error.message, /found none/);
    return true;
  });
});

test('a permit that runs tells an operator the task queue, and a queue the slots too; if neither runs, an order starts a queue on "permits"', async () => {
  const resource = temporal.resource();
  const deployed = new Operator(temporal.client, resource, { capacity: 2 });
  await deployed.pause({ timeout: '1s' }).catch((error) => assert.ok(error instanceof NoAnswerError, error));
  const queue = temporal.client.workflow.getHandle(queueId(resource));
  assert.equal((await queue.describe()).taskQueue, 'permits');
  await queue.terminate();
  assert.equal((await deployed.inspect({ recent: 0 })).queue, 'none');
  const permit = await semaphore(resource, { capacity: 2 }).acquire();
  await deployed.pause();
  const named = new Operator(temporal.client, resource);
  const { capacity, held, free, waiting } = await named.inspect({ recent: 0 });
  assert.deepEqual([capacity, held, free, waiting], [2, 1, 0, 0]);
  assert.equal(await named.resume(), undefined);
  await permit.release();
  await eventually(async () => assert.equal((await deployed.inspect({ recent: 0 })).free, 2));
  await assert.rejects(
    new Operator(temporal.client, temporal.resource()).resize(2),
    /says how many slots it has: give capacity or slots/,
  );
});

test('an order of an operator that knows only the name asks the server about the queue once', async () => {
  const resource = temporal.resource();
  const described: string[] = [];
  const { connection, options } = temporal.client;
  const counting = new Client({
    connection,
    namespace: options.namespace,
    interceptors: {
      workflow: [
        {
          describe: async (input, next) => {
            described.push(input.workflowExecution.workflowId ?? '');
            return await next(input);
          },
        },
      ],
    },
  });
  await operatorOf(semaphore(resource)).resize(2);
  await new Operator(counting, resource).resize(3);
  assert.deepEqual(described, [queueId(resource)]);
});
