import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import type { ReportedHold } from '../scripts/support/holder-intervals';
import {
  type ClientAcquireOptions,
  InvalidOptionsError,
  type Permit,
  PermitLostError,
  PermitTimeoutError,
  SemaphoreClient,
  type SemaphoreClientOptions,
} from '../src/client';
import { currentFencingToken } from '../src/fencing';
import { PERMIT_STATUS } from '../src/shared/operator-protocol';
import { permitId } from '../src/shared/permit-id';
import { REVOKE } from '../src/shared/protocol';
import { assertSafe, eventually, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

function semaphore(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, {
    ...(options.slots ? {} : { capacity: 1 }),
    taskQueue,
    ...options,
  });
}

/** Holds for `holdMs`, and says from when to when. */
async function hold(pool: SemaphoreClient, holdMs: number, options?: ClientAcquireOptions): Promise<ReportedHold> {
  const permit = await pool.acquire(options);
  const fromMs = Date.now();
  await delay(holdMs);
  const toMs = Date.now();
  await permit.release();
  return { runId: permit.runId, fromMs, toMs };
}

function statusOf({ workflowId, runId }: Pick<Permit, 'workflowId' | 'runId'>) {
  return temporal.client.workflow.getHandle(workflowId, runId).describe();
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

test('a free permit is had at once, says what it is, and is free again after release', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { slots: ['gpu-a'] });
  const permit = await pool.acquire({ purpose: 'proof' });
  assert.deepEqual(permit.ref(), {
    resource,
    slot: 'gpu-a',
    workflowId: permitId({ resource, slot: 'gpu-a' }),
    runId: permit.runId,
    leaseMs: 30_000,
  });
  assert.ok(Math.abs(permit.deadline.getTime() - Date.now() - 30_000) < 2_000, 'the default lease is 30 seconds');
  const { memo } = await statusOf(permit);
  assert.deepEqual(
    { ...memo, claimId: undefined },
    {
      holder: { identity: temporal.client.options.identity },
      leaseMs: 30_000,
      purpose: 'proof',
      slots: memo?.slots,
      claimId: undefined,
    },
  );
  assert.equal(await pool.tryAcquire(), undefined);
  await Promise.all([permit.release(), permit.release()]);
  assert.equal((await statusOf(permit)).status.name, 'COMPLETED');
  assert.equal(permit.signal.aborted, false, 'a release is no loss');
  await assert.rejects(permit.renew(), PermitLostError);
  const again = await pool.tryAcquire();
  assert.ok(again && again.runId > permit.runId, 'the later permit of a slot has the greater run ID');
  await again.release();
});

test('20 clients on capacity 3 all get their turn, never more than 3 at once', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 3 });
  const reports = await Promise.all(Array.from({ length: 20 }, () => hold(pool, 50)));
  const holds = await assertSafe(temporal.client, resource, 3, reports);
  assert.equal(holds.length, 20);
});

test('clients and Workflows share one pool', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  const args: [workflows.HolderInput] = [{ resource, semaphore: { capacity: 2 }, holdMs: 50 }];
  const { taskQueue } = temporal;
  const [reports] = await Promise.all([
    Promise.all(Array.from({ length: 6 }, () => hold(pool, 50))),
    Promise.all(
      Array.from({ length: 6 }, () =>
        temporal.client.workflow.execute(workflows.holder, { workflowId: `holder-${randomUUID()}`, taskQueue, args }),
      ),
    ),
  ]);
  const holds = await assertSafe(temporal.client, resource, 2, reports);
  assert.equal(holds.length, 12);
});

test('withPermit releases when its function returns and when it throws', async () => {
  const pool = semaphore(temporal.resource());
  assert.equal(await pool.withPermit(async ({ slot }) => slot), '0');
  await pool.withPermit(async ({ runId }) => assert.equal(currentFencingToken().runId, runId));
  await assert.rejects(
    pool.withPermit(async () => {
      throw new Error('as asked');
    }),
    /as asked/,
  );
  const permit = await pool.tryAcquire();
  await permit?.release();
  assert.ok(permit);
});

for (const [timeout, message] of [
  [0, /is free: all slots are held. Try later/],
  [600, /within 600 ms: all slots are held/],
] as const) {
  test(`an acquire with timeout ${timeout} fails in time when all is held`, async () => {
    const resource = temporal.resource();
    const pool = semaphore(resource);
    const permit = await pool.acquire();
    const startedMs = Date.now();
    await assert.rejects(pool.acquire({ timeout }), (error) => {
      assert.ok(error instanceof PermitTimeoutError);
      assert.deepEqual([error.resource, error.timeoutMs, error.unpolled], [resource, timeout, undefined]);
      assert.match(error.message, message);
      return true;
    });
    const tookMs = Date.now() - startedMs;
    assert.ok(tookMs >= timeout && tookMs < timeout + 2_500, `took ${tookMs} ms`);
    await permit.release();
  });
}

test('an aborted acquire ends at once with its reason, and leaves no waiter', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource);
  const permit = await pool.acquire();
  const stop = new AbortController();
  const waiting = pool.acquire({ signal: stop.signal });
  waiting.catch(() => undefined);
  await delay(1_000);
  const abortedMs = Date.now();
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  assert.ok(Date.now() - abortedMs < 5_000, 'abort is prompt');
  await assert.rejects(pool.acquire({ signal: AbortSignal.abort(new Error('from the start')) }), /from the start/);
  await permit.release();
  await assertSafe(temporal.client, resource, 1, []);
});

test('aborted under way, an acquire that does not wait rejects with its reason, and the work without a permit does not begin', async () => {
  const resource = temporal.resource();
  const held = await Promise.all([1, 2, 3].map(() => semaphore(resource, { capacity: 3 }).acquire()));
  const { connection } = temporal.client;
  for (const act of [
    (pool: SemaphoreClient, signal: AbortSignal) =>
      pool.withPermit(async () => assert.fail(), { onSaturated: 'inline', signal }),
    (pool: SemaphoreClient, signal: AbortSignal) => pool.acquire({ timeout: 0, signal }),
    (pool: SemaphoreClient, signal: AbortSignal) => pool.tryAcquire({ signal }),
  ]) {
    const stop = new AbortController();
    let tries = 0;
    const abortsOnStart: WorkflowClientInterceptor = {
      start: async (input, next) => {
        tries++;
        stop.abort(new Error('enough'));
        return await next(input);
      },
    };
    const client = new Client({ connection, interceptors: { workflow: [abortsOnStart] } });
    const pool = new SemaphoreClient(client, resource, { capacity: 3, taskQueue: temporal.taskQueue });
    await assert.rejects(act(pool, stop.signal), /enough/);
    assert.equal(tries, 1);
  }
  await Promise.all(held.map((permit) => permit.release()));
  await assertSafe(temporal.client, resource, 3, []);
});

test('aborted at any moment, an acquire leaves neither permit nor waiter', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  const outcomes = await Promise.all(
    Array.from({ length: 16 }, async (_, index) => {
      const stop = new AbortController();
      const ending = hold(pool, 30, { signal: stop.signal }).catch(() => undefined);
      await delay(index * 12);
      stop.abort();
      return await ending;
    }),
  );
  const reports = outcomes.filter((report) => report !== undefined);
  const holds = await assertSafe(temporal.client, resource, 2, reports);
  assert.equal(holds.length, reports.length);
});

for (const fair of [false, true]) {
  test(`clients and Workflows wait in one line, by priority and arrival (fair: ${fair})`, async () => {
    const resource = temporal.resource();
    const pool = semaphore(resource, { fair });
    const first = await pool.acquire();
    const names = new Map<string, string>();
    const reports: ReportedHold[] = [];
    const waiting: Promise<unknown>[] = [];
    const { taskQueue } = temporal;
    for (const [name, kind, priorityKey] of [
      ['low', 'client', 4],
      ['normal-1', 'workflow', 3],
      ['normal-2', 'client', undefined],
      ['high-1', 'client', 1],
      ['high-2', 'workflow', 1],
    ] as const) {
      const acquire = { priority: { priorityKey } };
      const holding = async () => {
        if (kind === 'client') {
          const report = await hold(pool, 1, acquire);
          reports.push(report);
          return report.runId;
        }
        const input = { resource, semaphore: { capacity: 1, fair }, acquire, holdMs: 1 };
        const options = { workflowId: `holder-${randomUUID()}`, taskQueue, args: [input] as [workflows.HolderInput] };
        return (await temporal.client.workflow.execute(workflows.holder, options)).runId ?? '';
      };
      waiting.push(holding().then((runId) => names.set(runId, name)));
      await delay(700); // until it has lined up
    }
    await first.release();
    await Promise.all(waiting);
    const holds = await assertSafe(temporal.client, resource, 1, reports);
    const order = holds.sort((a, b) => a.fromMs - b.fromMs).map(({ runId }) => names.get(runId));
    assert.deepEqual(order, ['high-1', 'high-2', 'normal-1', 'normal-2', 'low']);
  });
}

test('a permit renews itself past three leases', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { lease: '3s', renewEvery: '500ms' });
  const permit = await pool.acquire();
  await delay(10_000);
  assert.equal(permit.signal.aborted, false);
  assert.equal((await statusOf(permit)).status.name, 'RUNNING');
  await permit.release();
});

test('renewEvery: false makes the lease a hard bound, of which the holder is told before', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { lease: '2s', renewEvery: false });
  const permit = await pool.acquire();
  await aborted(permit.signal);
  assert.equal((await statusOf(permit)).status.name, 'RUNNING', 'told before the lease ends');
  assert.equal(permit.signal.reason.how, 'lease-expired');
  await assert.rejects(permit.renew(), PermitLostError);
});

test('a revocation and a termination abort the signal at once and fail withPermit', async () => {
  for (const [how, reason] of [
    ['revoked', 'node drain'],
    ['terminated', undefined],
  ] as const) {
    const resource = temporal.resource();
    let startedMs = 0;
    const losing = semaphore(resource).withPermit(async (permit) => {
      const handle = temporal.client.workflow.getHandle(permit.workflowId, permit.runId);
      startedMs = Date.now();
      await (how === 'revoked' ? handle.signal(REVOKE, { reason }) : handle.terminate());
      await aborted(permit.signal);
      return 'done all the same';
    });
    await assert.rejects(losing, (error) => {
      assert.ok(error instanceof PermitLostError);
      assert.deepEqual([error.resource, error.slot, error.how, error.reason], [resource, '0', how, reason]);
      return true;
    });
    assert.ok(Date.now() - startedMs < 3_000);
  }
});

test('a permit that ended before its function was through is lost, though the client has not heard of it', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 2 });
  const revoke = async ({ workflowId, runId }: Permit) => {
    const handle = temporal.client.workflow.getHandle(workflowId, runId);
    await handle.query(PERMIT_STATUS); // signals that come before its first task have no order
    await handle.signal(REVOKE, { reason: 'for another' });
  };
  for (let round = 0; round < 5; round++) {
    await assert.rejects(pool.withPermit(revoke), PermitLostError);
    await assert.rejects(
      pool.withPermits(2, async ([permit = assert.fail()]) => await revoke(permit)),
      PermitLostError,
    );
  }
  await assertSafe(temporal.client, resource, 2, []);
});

test('the queue starts anew under a waiting client', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { recheckAfter: '1s' });
  const permit = await pool.acquire();
  const waiting = pool.acquire();
  const queue = temporal.client.workflow.getHandle(`permit-queue:${resource}`);
  await eventually(async () => assert.equal((await queue.describe()).status.name, 'RUNNING'));
  await delay(500);
  await queue.terminate();
  await permit.release();
  await (await waiting).release();
});

const BAD: [string, unknown, unknown, RegExp][] = [
  ['no task queue', { capacity: 1 }, {}, /taskQueue: expected a non-empty string, got undefined/],
  ['capacity 0', { capacity: 0, taskQueue: 'q' }, {}, /capacity: expected a whole number/],
  ['too long a hold', { capacity: 1, taskQueue: 'q', maxHold: '2 days' }, {}, /maxHold: expected at most \d+ ms/],
  [
    'a renewal that comes after the holder has to stop',
    { capacity: 1, taskQueue: 'q', lease: '60s', renewEvery: '54s' },
    {},
    /renewEvery: expected less than nine tenths of the lease \(54000 ms\): then the holder has to stop, got 54000/,
  ],
  ['a negative timeout', { capacity: 1, taskQueue: 'q' }, { timeout: -1 }, /timeout: expected a duration/],
  ['a signal that is none', { capacity: 1, taskQueue: 'q' }, { signal: {} }, /signal: expected an AbortSignal/],
];
for (const [what, options, acquire, message] of BAD) {
  test(`${what} is refused before any call`, async () => {
    await assert.rejects(
      async () =>
        await new SemaphoreClient(temporal.client, 'pool', options as SemaphoreClientOptions).acquire(
          acquire as ClientAcquireOptions,
        ),
      (error) => error instanceof InvalidOptionsError && message.test(error.message),
    );
  });
}
