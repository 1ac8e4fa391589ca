import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { Runtime } from '@temporalio/worker';
import { type Sample, scrape } from '../../scripts/support/prometheus';
import { freePort } from '../../scripts/support/server-process';
import { type Permit, PermitLostError, PermitPool, PermitTimeoutError, SemaphoreClient } from '../../src/client';
import { permitId, queueId } from '../../src/shared/permit-id';
import { DECLINED, MISSED, REVOKE, type Ticket, TURN, WATCH } from '../../src/shared/protocol';
import { createPermitWorker, HISTOGRAM_BUCKETS } from '../../src/worker';
import { CliProcess } from '../support/cli-process';
import { failureOf, startHolder, startHolding, startOptions, untilAt } from '../support/holders';
import { operatorOf } from '../support/operators';
import { eventually, type Temporal, until, untilWaiting, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

let address = '';
const temporal = useTemporal({
  telemetry: async () => {
    address = `127.0.0.1:${await freePort()}`;
    return { metrics: { prometheus: { bindAddress: address, histogramBucketOverrides: HISTOGRAM_BUCKETS } } };
  },
});

const OURS = 'temporal_semaphore_';
const CAPACITY_1 = { capacity: 1 };

/**
 * All that was counted for a resource, as `{ 'turn_unused missed': 1 }`; of a histogram how many values it has. What has
 * one label besides goes by its value.
 */
function counts(samples: Sample[], resource: string): Record<string, number> {
  const counted: Record<string, number> = {};
  for (const { name, labels, value } of samples) {
    if (!name.startsWith(OURS) || labels.resource !== resource || /_(bucket|sum)$/.test(name)) continue;
    const { outcome, stage, reason, cause } = labels;
    const what = name.slice(OURS.length).replace(/_(latency|duration)_count$/, '');
    const key = [what, outcome ?? stage ?? reason ?? cause].filter(Boolean).join(' ');
    counted[key] = (counted[key] ?? 0) + value;
  }
  return counted;
}

/** Waits until exactly this was counted. */
async function assertCounts(resource: string, expected: Record<string, number>): Promise<void> {
  await eventually(async () => assert.deepEqual(counts(await scrape(address), resource), expected));
}

/** Of the queue's history: the turns it gave, how many of them were missed, and the permits that it asked and did not find. */
async function turnsOf(resource: string): Promise<{ offered: number; missed: number; unfound: number }> {
  const { events } = await temporal.client.workflow.getHandle(queueId(resource)).fetchHistory();
  const all = events ?? [];
  const asked = all.filter((e) => e.signalExternalWorkflowExecutionInitiatedEventAttributes?.signalName === WATCH);
  const failed = all.map((e) => e.signalExternalWorkflowExecutionFailedEventAttributes?.initiatedEventId?.toString());
  return {
    offered: all.filter((e) => e.signalExternalWorkflowExecutionInitiatedEventAttributes?.signalName === TURN).length,
    missed: all.filter((e) => e.workflowExecutionSignaledEventAttributes?.signalName === MISSED).length,
    unfound: asked.filter((e) => failed.includes(e.eventId?.toString())).length,
  };
}

/**
 * Five take the one permit, one after the other, and every number is checked. Nothing is queried: a query that comes upon a
 * step not yet taken has the SDK take it, as if for good, where the Workflow is not cached.
 */
async function contend(on: Temporal): Promise<void> {
  const resource = temporal.resource('contended');
  const input = { resource, semaphore: CAPACITY_1 };
  const startedMs = Date.now();
  const first = await startHolder(on, input);
  await assertCounts(resource, { 'acquire acquired': 1 });
  const waiters = [];
  for (let place = 1; place <= 4; place++) {
    waiters.push(await startHolder(on, { ...input, holdMs: 0 }));
    await assertCounts(resource, { 'acquire acquired': 1, waiters: place });
  }
  await first.signal(workflows.finish);
  await Promise.all(waiters.map((waiter) => waiter.result()));

  const { offered, missed, unfound } = await turnsOf(resource);
  assert.equal(offered, 4 + missed);
  await eventually(async () => {
    const { 'turn_unused overdue': overdue = 0, ...counted } = counts(await scrape(address), resource);
    // On a slow machine, the queue asks for the permit of a turn before its waiter has taken it.
    assert.ok(overdue <= unfound, `${overdue} turns overdue, ${unfound} permits not found`);
    assert.deepEqual(counted, {
      'acquire acquired': 5,
      'hold released': 5,
      'handoff turn': offered,
      'handoff claim': 4,
      turn_offered: offered,
      ...(missed > 0 ? { 'turn_unused missed': missed } : {}),
      waiters: 0,
    });
  });
  const heldMs = (await scrape(address)).find(
    ({ name, labels }) => name === `${OURS}hold_duration_sum` && labels.resource === resource,
  );
  assert.ok(heldMs && heldMs.value > 0 && heldMs.value < Date.now() - startedMs, `held for ${heldMs?.value} ms`);
}

test('contention: every acquire, hold, hand-off and turn is counted once', async () => {
  await contend(temporal);
});

test('no replay counts again: with every Workflow Task replayed from the start, the numbers are the same', async () => {
  const taskQueue = `uncached-${randomUUID()}`;
  await temporal.worker({ taskQueue, maxCachedWorkflows: 0 });
  await contend({ ...temporal, taskQueue });
  const evictions = (await scrape(address)).find(
    ({ name, labels }) => name === 'temporal_sticky_cache_total_forced_eviction' && labels.task_queue === taskQueue,
  );
  assert.ok(evictions && evictions.value >= 20, 'it did replay');
});

/** Of the queue's history: how many waiters it was told of that wait no longer. */
async function toldOf(resource: string): Promise<number> {
  const { events } = await temporal.client.workflow.getHandle(queueId(resource)).fetchHistory();
  return (events ?? []).filter((e) => e.workflowExecutionSignaledEventAttributes?.signalName === DECLINED).length;
}

/** Waits until the gauge of waiters shows this. */
async function waitersAre(resource: string, count: number): Promise<void> {
  await eventually(async () => assert.equal(counts(await scrape(address), resource).waiters, count));
}

test('Workflows that were terminated as they waited count no more after half a minute, and have no turns', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const input = { resource, semaphore: { ...CAPACITY_1, taskQueue } };
  const worker = await createPermitWorker({ connection: temporal.env.nativeConnection, taskQueue });
  await worker.runUntil(async () => {
    const { handle } = await startHolding(temporal, input);
    const waiters = [];
    for (let place = 1; place <= 5; place++) waiters.push(await startHolder(temporal, { ...input, holdMs: 0 }));
    await waitersAre(resource, 5);
    for (const waiter of waiters.slice(0, 3)) await waiter.terminate();
    await waitersAre(resource, 2); // the slot is held, so none of the three has a turn
    assert.equal(await toldOf(resource), 3);
    await handle.signal(workflows.finish);
    await Promise.all(waiters.slice(3).map((waiter) => waiter.result()));
    await waitersAre(resource, 0);
    const { offered, missed } = await turnsOf(resource);
    assert.equal(offered, 2 + missed);
  });
});

test('when a queue was terminated, nobody waits in it', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const input = { resource, semaphore: { ...CAPACITY_1, taskQueue } };
  const worker = await createPermitWorker({ connection: temporal.env.nativeConnection, taskQueue });
  await worker.runUntil(async () => {
    const { handle } = await startHolding(temporal, input);
    const waiter = await startHolder(temporal, input);
    await waitersAre(resource, 1);
    await temporal.client.workflow.getHandle(queueId(resource)).terminate();
    await waiter.terminate(); // or it starts another queue
    await waitersAre(resource, 0);
    await handle.signal(workflows.finish);
    await handle.result();
  });
});

test('a client that has its turn while the permit worker asks about its waiter keeps the turn', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const semaphore = new SemaphoreClient(temporal.client, resource, { ...CAPACITY_1, taskQueue });
  const described: string[] = [];
  let first: Permit | undefined;
  let served: Promise<Permit> | undefined;
  const describe: WorkflowClientInterceptor['describe'] = async (input, next) => {
    const { workflowId = '' } = input.workflowExecution;
    described.push(workflowId);
    if (workflowId.startsWith('permit-waiter:')) {
      await first?.release();
      await served; // its waiter has ended with the turn
    }
    return await next(input);
  };
  const { nativeConnection: connection } = temporal.env;
  const interceptors = { client: { workflow: [{ describe }] } };
  const worker = await createPermitWorker({ connection, taskQueue, interceptors });
  await worker.runUntil(async () => {
    first = await semaphore.acquire();
    served = semaphore.acquire();
    await untilWaiting(temporal.client, resource, 1);
    const third = await startHolder(temporal, { resource, semaphore: { ...CAPACITY_1, taskQueue }, holdMs: 0 });
    await untilWaiting(temporal.client, resource, 2);
    const second = await served;
    const looks = () => described.filter((workflowId) => workflowId === queueId(resource)).length;
    const soFar = looks();
    await until(() => looks() > soFar);
    assert.equal(await toldOf(resource), 0);
    await second.release();
    await third.result();
  });
});

test('acquires that got nothing count by how they ended', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: CAPACITY_1 };
  const { handle } = await startHolding(temporal, input);
  const { workflow } = temporal.client;
  const tried = await workflow.execute(workflows.tryer, { ...startOptions(temporal), args: [input, 1] });
  assert.deepEqual(tried, [null]);
  const late = { ...input, acquire: { timeout: '1s' as const } };
  await failureOf(workflow.execute(workflows.maker, { ...startOptions(temporal), args: [late] }));
  const now = { ...input, acquire: { timeout: 0 } };
  await failureOf(workflow.execute(workflows.maker, { ...startOptions(temporal), args: [now] }));
  const cancelled = await startHolder(temporal, input);
  await untilWaiting(temporal.client, resource, 1);
  await cancelled.cancel();
  await failureOf(cancelled.result());
  await handle.signal(workflows.finish);
  await handle.result();
  await assertCounts(resource, {
    'acquire acquired': 1,
    'acquire full': 2,
    'acquire timeout': 1,
    'acquire cancelled': 1,
    'hold released': 1,
    waiters: 0,
  });
});

test('permits lost count by cause, where the holder hears of it and where the permit ends', async () => {
  const resource = temporal.resource();
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
  for (const [lease, end] of [
    ['10m', () => permit.signal(REVOKE, { reason: 'test' })],
    ['10m', () => permit.terminate()],
    ['1s', () => Promise.resolve()], // nobody renews it
  ] as const) {
    const handle = await startHolder(temporal, { resource, semaphore: { capacity: 1, lease, renewEvery: false } });
    if (lease !== '1s') await untilAt(handle, 'holding');
    await end();
    await failureOf(handle.result());
  }
  await assertCounts(resource, {
    'acquire acquired': 3,
    'hold revoked': 1,
    'hold lease-expired': 1,
    'permit_lost revoked': 1,
    'permit_lost terminated': 1,
    'permit_lost lease-expired': 1,
  });
});

/** Starts a queue whose one waiter is that Workflow. */
async function queueFor(waiter: Ticket['waiter']): Promise<{ resource: string; ticket: Ticket }> {
  const resource = temporal.resource();
  const ticket: Ticket = { id: randomUUID(), waiter, slots: 1, sinceMs: Date.now() };
  await temporal.client.workflow.start(workflows.waitQueueWorkflow, {
    workflowId: queueId(resource),
    taskQueue: temporal.taskQueue,
    args: [{ tickets: [ticket] }],
  });
  return { resource, ticket };
}

test('turns that gave nobody a permit count by reason', async () => {
  const gone = await queueFor({ workflowId: `nobody-${randomUUID()}`, runId: randomUUID() });
  const other = await startHolding(temporal, { resource: temporal.resource(), semaphore: CAPACITY_1 });
  const declining = await queueFor({
    workflowId: other.handle.workflowId,
    runId: other.handle.firstExecutionRunId,
  });
  const deaf = await temporal.client.workflow.start('nobody-runs-this', {
    ...startOptions(temporal),
    taskQueue: `nobody-${randomUUID()}`,
  });
  const silent = await queueFor({ workflowId: deaf.workflowId, runId: deaf.firstExecutionRunId });
  await assertCounts(gone.resource, { turn_offered: 1, 'turn_unused gone': 1, waiters: 0 });
  await assertCounts(declining.resource, {
    turn_offered: 1,
    'turn_unused declined': 1,
    'handoff turn': 1,
    waiters: 0,
  });
  await assertCounts(silent.resource, { turn_offered: 1, 'handoff turn': 1, waiters: 0 });
  const queue = temporal.client.workflow.getHandle(queueId(silent.resource));
  await queue.signal(MISSED, { ticket: silent.ticket, slot: '0' });
  await assertCounts(silent.resource, {
    turn_offered: 2, // the slot was free all the while
    'turn_unused missed': 1,
    'turn_unused overdue': 1,
    'handoff turn': 2,
    waiters: 0,
  });
  await deaf.terminate();
  await other.handle.signal(workflows.finish);
  await other.handle.result();
});

test('a client counts where it has a meter', async () => {
  const resource = temporal.resource();
  const options = { ...CAPACITY_1, taskQueue: temporal.taskQueue, metricMeter: Runtime.instance().metricMeter };
  const semaphore = new SemaphoreClient(temporal.client, resource, options);
  const unmetered = new SemaphoreClient(temporal.client, resource, { ...options, metricMeter: undefined });
  const permit = await semaphore.acquire();
  assert.equal(await semaphore.tryAcquire(), undefined);
  assert.equal(await unmetered.tryAcquire(), undefined);
  await assert.rejects(semaphore.acquire({ timeout: 500 }), PermitTimeoutError);
  await assert.rejects(semaphore.acquire({ signal: AbortSignal.timeout(500) }), { name: 'TimeoutError' });
  const nowhere = new Client({ connection: temporal.env.connection, namespace: 'no-such-namespace' });
  await assert.rejects(new SemaphoreClient(nowhere, resource, options).acquire());

  const waiting = semaphore.acquire();
  await untilWaiting(temporal.client, resource, 1);
  await permit.release();
  const second = await waiting;
  await temporal.client.workflow.getHandle(second.workflowId).signal(REVOKE, {});
  await until(() => second.signal.reason instanceof PermitLostError);
  const { offered, missed } = await turnsOf(resource);
  await eventually(async () => {
    const {
      turn_offered,
      'handoff turn': turns,
      'turn_unused missed': misses = 0,
      ...counted
    } = counts(await scrape(address), resource);
    assert.deepEqual({ turn_offered, turns, misses }, { turn_offered: offered, turns: offered, misses: missed });
    assert.deepEqual(counted, {
      'acquire acquired': 2,
      'acquire full': 1,
      'acquire timeout': 1,
      'acquire cancelled': 1,
      'acquire failed': 1,
      'handoff claim': 1,
      'hold released': 1,
      'hold revoked': 1,
      'permit_lost revoked': 1,
      waiters: 0,
    });
  });
});

test('a client that gives way in time has lost no permit; one that does not has', async () => {
  const resource = temporal.resource();
  const options = { ...CAPACITY_1, taskQueue: temporal.taskQueue, metricMeter: Runtime.instance().metricMeter };
  const lamp = new SemaphoreClient(temporal.client, resource, options);
  const lost = async () => counts(await scrape(address), resource)['permit_lost preempted'];
  for (const [grace, losses] of [
    ['30s', undefined],
    ['1s', 1],
  ] as const) {
    const party = await lamp.acquire({ priority: { priorityKey: 4 }, preemptible: { grace } });
    const alarm = lamp.acquire({ priority: { priorityKey: 1 }, preempt: true });
    await party.preempted;
    if (losses === undefined) await party.release();
    await (await alarm).release();
    await eventually(async () => assert.equal(await lost(), losses));
  }
});

test("a pool's calls count apart from what it acquires at the server", async () => {
  const resource = temporal.resource();
  const options = { ...CAPACITY_1, taskQueue: temporal.taskQueue, metricMeter: Runtime.instance().metricMeter };
  const pool = new PermitPool(new SemaphoreClient(temporal.client, resource, options));
  for (let call = 0; call < 3; call++) await pool.withPermit(async () => undefined);
  await pool.close();
  await assertCounts(resource, {
    'pool_wait acquired': 3,
    pool_reuse: 2,
    'acquire acquired': 1,
    'hold released': 1,
  });
});

test('a slot that the queue keeps out of use is not held by anybody', async () => {
  const resource = temporal.resource();
  const semaphore = new SemaphoreClient(temporal.client, resource, { ...CAPACITY_1, taskQueue: temporal.taskQueue });
  const untilSlotIs = (state: string) =>
    eventually(async () => assert.equal((await operatorOf(semaphore).inspect({ recent: 0 })).slots[0]?.state, state));
  await operatorOf(semaphore).pause();
  await untilSlotIs('drained');
  await operatorOf(semaphore).resume();
  await untilSlotIs('free');
  await assertCounts(resource, { waiters: 0 });
});

test('a meter that is none is refused', () => {
  const metricMeter = JSON.parse('{}');
  assert.throws(
    () => new SemaphoreClient(temporal.client, 'pool', { ...CAPACITY_1, taskQueue: 'permits', metricMeter }),
    /metricMeter: expected a MetricMeter/,
  );
});

test('what is documented and drawn is what is exported, and no label holds an ID', async () => {
  const samples = (await scrape(address)).filter(({ name }) => name.startsWith(OURS));
  const exported = new Set(samples.map(({ name }) => name));
  const families = new Set([...exported].map((name) => name.replace(/_(bucket|sum|count)$/, '')));
  const read = (path: string) => readFileSync(join(__dirname, '..', '..', 'docs', path), 'utf8');
  const named = (text: string) => new Set(text.match(/temporal_semaphore_\w+/g));

  const drawn = named(read('grafana/temporal-semaphore.json'));
  assert.ok(drawn.size >= 8);
  assert.deepEqual(
    [...drawn].filter((name) => !exported.has(name)),
    [],
  );
  const documented = named(read('monitoring.md'));
  assert.deepEqual(
    [...documented].filter((name) => !exported.has(name) && !families.has(name)),
    [],
  );
  assert.deepEqual(
    [...families].filter((name) => !documented.has(name)),
    [],
  );

  const labels = new Set(samples.flatMap((sample) => Object.keys(sample.labels)));
  assert.deepEqual([...labels].sort(), [
    'cause',
    'le',
    'namespace',
    'outcome',
    'reason',
    'resource',
    'stage',
    'taskQueue',
    'workflowType',
  ]);
  const lastBuckets = samples.filter(({ labels }) => labels.le === '86400000').map(({ name }) => name);
  const days = ['acquire_latency', 'hold_duration', 'pool_wait_latency'];
  assert.deepEqual(
    [...new Set(lastBuckets)].sort(),
    days.map((name) => `${OURS}${name}_bucket`),
  );
});

test('temporal-semaphore worker --metrics exports what its permits say', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const metrics = `127.0.0.1:${await freePort()}`;
  const to = ['--task-queue', taskQueue, '--address', temporal.env.address];
  const worker = new CliProcess(['worker', ...to, '--metrics', metrics]);
  try {
    await worker.says(/(permits run on task queue)/);
    await new SemaphoreClient(temporal.client, resource, { ...CAPACITY_1, taskQueue }).withPermit(
      async () => undefined,
    );
    await eventually(async () => assert.deepEqual(counts(await scrape(metrics), resource), { 'hold released': 1 }));
  } finally {
    worker.signal('SIGTERM');
  }
  assert.equal(await worker.exit, 0);
  const wrong = new CliProcess(['worker', ...to, '--metrics', 'localhost:9464']);
  assert.equal(await wrong.exit, 64);
  assert.match(wrong.stderr, /--metrics: expected an IP address and a port, got "localhost:9464"/);
});
