import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowFailedError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { PERMIT_STATUS } from '../src/shared/operator-protocol';
import { permitId } from '../src/shared/permit-id';
import { REVOKE } from '../src/shared/protocol';
import {
  assertFails,
  assertReleased,
  failureOf,
  startHolder,
  startHolding,
  startOptions,
  untilAt,
} from './support/holders';
import { assertNoPermitLeft, assertSafe, eventually, useTemporal } from './support/temporal';
import type { PoolInput } from './support/workflows';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

for (const capacity of [1, 3]) {
  test(`20 contenders on capacity ${capacity} all get their turn, never more than ${capacity} at once`, async () => {
    const resource = temporal.resource();
    const args: [workflows.HolderInput] = [{ resource, semaphore: { capacity }, holdMs: 0 }];
    await Promise.all(
      Array.from({ length: 20 }, () =>
        temporal.client.workflow.execute(workflows.holder, { ...startOptions(temporal), args }),
      ),
    );
    const holds = await assertSafe(temporal.client, resource, capacity);
    assert.equal(holds.length, 20);
  });
}

test('the permit is gone when withPermit returns, and when its function throws', async () => {
  for (const ending of ['return', 'fail'] as const) {
    const resource = temporal.resource();
    const { handle, slot, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1 }, ending });
    await handle.signal(workflows.finish);
    if (ending === 'fail') await assertFails(handle.result(), 'AsAsked', /as asked/);
    else assert.equal((await handle.result()).at, 'done');
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot }), runId);
    assert.equal((await permit.describe()).status.name, 'COMPLETED');
    await assertReleased(permit);
  }
});

test('a terminated holder frees its slot', async () => {
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  await handle.terminate();
  await assertNoPermitLeft(temporal.client, resource);
});

test('a holder cancelled while it waits ends at once and claims nothing', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const waiter = await startHolder(temporal, { resource, semaphore });
  await delay(1_500);
  const cancelledMs = Date.now();
  await waiter.cancel();
  assert.ok((await failureOf(waiter.result())) instanceof CancelledFailure);
  assert.ok(Date.now() - cancelledMs < 5_000, 'cancellation is prompt');
  await first.handle.signal(workflows.finish);
  await first.handle.result();
  const holds = await assertSafe(temporal.client, resource, 1);
  assert.deepEqual(
    holds.map((hold) => hold.holder),
    [first.handle.workflowId],
  );
});

test('a claim that wins while its caller is being cancelled is given back', async () => {
  const resource = temporal.resource();
  const input: PoolInput = { resource, semaphore: { capacity: 1 } };
  const outcome = await temporal.client.workflow.execute(workflows.cancelledClaimer, {
    ...startOptions(temporal, 'claimer'),
    args: [input],
  });
  assert.equal(outcome, 'cancelled');
  await assertReleased(temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })));
});

test('cancelled at any moment, a holder leaves no permit behind', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 2 };
  const ends = Array.from({ length: 24 }, async (_, index) => {
    const handle = await startHolder(temporal, { resource, semaphore, holdMs: 30 });
    await delay(index * 8);
    await handle.cancel().catch(() => undefined); // it may be done already
    return await handle.result().then(
      () => 'done',
      async (error: WorkflowFailedError) =>
        error.cause instanceof CancelledFailure ? 'cancelled' : String(error.cause),
    );
  });
  const outcomes = await Promise.all(ends);
  assert.deepEqual(
    outcomes.filter((outcome) => outcome !== 'done' && outcome !== 'cancelled'),
    [],
  );
  assert.ok(outcomes.includes('cancelled'));
  await assertSafe(temporal.client, resource, 2);
});

test('a holder cancelled while it holds releases, and its function is cancelled', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  await handle.cancel();
  assert.ok((await failureOf(handle.result())) instanceof CancelledFailure);
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await permit.result(), 'released');
});

test('withPermit keeps its permit past three leases', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: 3_000, renewEvery: 500 };
  const { handle, runId } = await startHolding(temporal, { resource, semaphore, holdMs: 10_000 });
  assert.equal((await handle.result()).at, 'done');
  const holds = await assertSafe(temporal.client, resource, 1);
  assert.deepEqual(
    holds.map((hold) => hold.runId),
    [runId],
  );
});

test('renewEvery: false makes the lease a hard bound', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: 500, renewEvery: false as const };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  await assertFails(handle.result(), 'PermitLostError', /lease ended/);
});

test('a permit lost to an operator cancels the function and says why', async () => {
  const resource = temporal.resource();
  const { handle, slot, runId } = await startHolding(temporal, { resource, semaphore: { slots: ['gpu-a'] } });
  await temporal.client.workflow
    .getHandle(permitId({ resource, slot }), runId)
    .signal(REVOKE, { reason: 'node drain' });
  const failure = await assertFails(handle.result(), 'PermitLostError', /slot "gpu-a".*revoked.*node drain/);
  assert.deepEqual(failure.details, [{ resource, slot, runId, how: 'revoked', reason: 'node drain' }]);
  assert.equal((await handle.query(workflows.stage)).at, 'lost');
});

test('a permit that ended before its function was through is lost, also where a Workflow hears of both at once', async () => {
  for (const first of ['its end', 'the function']) {
    const resource = temporal.resource();
    const taskQueue = `${temporal.taskQueue}-${resource}`;
    const worker = await temporal.worker({ taskQueue });
    const handle = await temporal.client.workflow.start(workflows.directHolder, {
      ...startOptions(temporal),
      taskQueue,
      args: [{ resource, semaphore: { capacity: 1, taskQueue: temporal.taskQueue } }],
    });
    const { runId } = await untilAt(handle, 'holding');
    await worker.stop();
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
    const steps = [
      async () => {
        await permit.signal(REVOKE, { reason: 'for another' });
        assert.equal(await permit.result(), 'revoked');
      },
      async () => await handle.signal(workflows.finish),
    ];
    for (const step of first === 'its end' ? steps : steps.reverse()) await step();
    await temporal.worker({ taskQueue });
    await assertFails(handle.result(), 'PermitLostError', /revoked.*for another/);
  }
});

test('a permit that ended before its release is lost, although its Workflow had not heard of it', async () => {
  const resource = temporal.resource();
  const handle = await temporal.client.workflow.start(workflows.lateLoser, {
    ...startOptions(temporal),
    args: [{ resource, semaphore: { capacity: 1 } }],
  });
  const { runId } = await untilAt(handle, 'holding');
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  await permit.query(PERMIT_STATUS); // signals that come before its first task have no order
  await handle.signal(workflows.finish);
  await assertFails(handle.result(), 'PermitLostError', /revoked.*for another/);
});

test('a terminated permit cancels the function', async () => {
  const resource = temporal.resource();
  const { handle, slot } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  await temporal.client.workflow.getHandle(permitId({ resource, slot })).terminate();
  await assertFails(handle.result(), 'PermitLostError', /terminated/);
});

test('maxHold ends a permit on the server side', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: 3_000, renewEvery: 1_000, maxHold: 5_000 };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  await assertFails(handle.result(), 'PermitLostError', /maxHold/);
});

test('a late release or renewal by an old holder does not touch the new holder of its slot', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: 500, renewEvery: false as const };
  const late = await temporal.client.workflow.start(workflows.lateHolder, {
    ...startOptions(temporal),
    args: [{ resource, semaphore }],
  });
  const old = await untilAt(late, 'holding');
  const next = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  assert.ok(next.runId > old.runId, 'the later permit of a slot has the greater run ID');
  await late.signal(workflows.finish);
  assert.equal(await late.result(), 'lease-expired');
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
  await delay(1_500); // a release that went to the wrong run would have ended it by now
  const { runId, status } = await permit.describe();
  assert.deepEqual({ runId, status: status.name }, { runId: next.runId, status: 'RUNNING' });
  await next.handle.signal(workflows.finish);
  await next.handle.result();
  await assertSafe(temporal.client, resource, 1);
});

for (const [timeout, message] of [
  [0, /is free: all slots are held. Try later/],
  [400, /within 400 ms: all slots are held/],
] as const) {
  test(`an acquire with timeout ${timeout} fails in time when all is held, and succeeds when something is free`, async () => {
    const resource = temporal.resource();
    const semaphore = { capacity: 1 };
    const first = await startHolding(temporal, { resource, semaphore });
    const startedMs = Date.now();
    const late = await startHolder(temporal, { resource, semaphore, acquire: { timeout } });
    const failure = await assertFails(late.result(), 'PermitTimeoutError', message);
    assert.deepEqual(failure.details, [{ resource, timeoutMs: timeout }]);
    const tookMs = Date.now() - startedMs;
    assert.ok(tookMs >= timeout && tookMs < timeout + 2_500, `took ${tookMs} ms`);
    await first.handle.signal(workflows.finish);
    await first.handle.result();
    const timely = await startHolder(temporal, { resource, semaphore, acquire: { timeout }, holdMs: 1 });
    assert.equal((await timely.result()).at, 'done');
    await assertSafe(temporal.client, resource, 1);
  });
}

test('tryAcquire takes each named slot once, then gives undefined', async () => {
  const input: PoolInput = { resource: temporal.resource(), semaphore: { slots: ['gpu-a', 'gpu-b', 'gpu-c'] } };
  const slots = await temporal.client.workflow.execute(workflows.tryer, {
    ...startOptions(temporal, 'tryer'),
    args: [input, 4],
  });
  assert.deepEqual([...slots.slice(0, 3)].sort(), ['gpu-a', 'gpu-b', 'gpu-c']);
  assert.equal(slots[3], null); // JSON's undefined
});

test('`await using` releases at the end of the block', async () => {
  const input: PoolInput = { resource: temporal.resource(), semaphore: { capacity: 1 } };
  const freed = await temporal.client.workflow.execute(workflows.disposer, {
    ...startOptions(temporal, 'disposer'),
    args: [input],
  });
  assert.equal(freed, true);
});

test('a holder that continues as new inside withPermit has released first', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, {
    resource,
    semaphore: { capacity: 1 },
    holdMs: 50,
    ending: 'continue-as-new',
  });
  assert.equal((await handle.result()).at, 'done');
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  await assertReleased(permit);
  assert.equal((await assertSafe(temporal.client, resource, 1)).length, 2);
});

test('a permit that is still held when its Workflow continues as new ends with that run', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const handle = await temporal.client.workflow.start(workflows.bareHolder, {
    ...startOptions(temporal),
    args: [{ resource, semaphore }],
  });
  const { runId } = await untilAt(handle, 'holding');
  await handle.signal(workflows.finish);
  const first = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await first.result(), 'released');
  await eventually(async () => assert.notEqual((await handle.query(workflows.stage)).runId, runId));
  await handle.signal(workflows.finish);
  await handle.result();
  await assertSafe(temporal.client, resource, 1);
});

const BAD: [string, string, PoolInput['semaphore'], PoolInput['acquire'], RegExp][] = [
  ['capacity 0', 'pool', { capacity: 0 }, {}, /capacity: expected a whole number from 1 to 1000, got 0/],
  ['both capacity and slots', 'pool', { capacity: 1, slots: ['a'] }, {}, /exactly one of/],
  ['an empty resource', '', { capacity: 1 }, {}, /resource: expected a non-empty string, got ""/],
  ['":" in a slot', 'pool', { slots: ['a:b'] }, {}, /slot name: expected a name without ":", got "a:b"/],
  ['a renewal not below the lease', 'pool', { capacity: 1, lease: '1s', renewEvery: '1s' }, {}, /renewEvery/],
  ['a negative timeout', 'pool', { capacity: 1 }, { timeout: -1 }, /timeout: expected a duration of 0 ms or more/],
];
for (const [what, resource, semaphore, acquire, message] of BAD) {
  test(`${what} fails the Workflow before any command`, async () => {
    const input = { resource, semaphore, acquire };
    const handle = await temporal.client.workflow.start(workflows.maker, {
      ...startOptions(temporal, 'maker'),
      args: [input],
    });
    await assertFails(handle.result(), 'InvalidOptionsError', message);
    const { events } = await handle.fetchHistory();
    assert.equal(events?.length, 5, 'started, task scheduled, started, completed, failed');
  });
}
