import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { Finding } from '../../../src/cli/resource-findings';
import { NoAnswerError, PermitPool, SemaphoreClient, type SemaphoreClientOptions } from '../../../src/client';
import { ResourceHistory } from '../../../src/dashboard/resource-history';
import { StaleTokenError, TemporalFence } from '../../../src/fencing';
import { listHolders } from '../../../src/operator';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { CliHost } from '../../support/cli-host';
import { assertFails, startHolder, startHolding, untilAt } from '../../support/holders';
import { states, untilStates } from '../../support/inspected';
import { operatorOf } from '../../support/operators';
import { assertSafe, eventually, until, untilWaiting, useTemporal } from '../../support/temporal';
import { pauseWorkflow, pausingOn, unpauseWorkflow } from '../../support/workflow-pause';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });
const pausing = pausingOn(temporal);
const host = new CliHost();

/** A lease that ends while the test goes on. */
const SHORT = { capacity: 1, lease: '2s' } as const;
const PAST_THE_LEASE_MS = 4_000;

function pool(resource: string, options: Partial<SemaphoreClientOptions> = SHORT): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity: 1, ...options, taskQueue: temporal.taskQueue });
}

async function run(...args: string[]) {
  return await host.run([...args, '--address', temporal.env.address]);
}

/** What `ls`, `why` and `doctor` say; `doctor` of this resource alone. */
async function told(resource: string, who: string) {
  const ls = (await run('ls', resource, '--capacity', '1')).stdout;
  const why = (await run('why', who, '--resource', resource)).stdout;
  const found: Finding[] = JSON.parse((await run('doctor', '--task-queue', temporal.taskQueue, '--json')).stdout);
  return { ls, why, doctor: found.filter(({ what }) => what.includes(resource)) };
}

/** What the page says of what is paused. */
async function onPage(semaphore: SemaphoreClient): Promise<string> {
  const { head } = new ResourceHistory().look(await operatorOf(semaphore).inspect({ recent: 0 }), Date.now());
  return head.paused?.join('\n') ?? '';
}

function unpause(workflowId: string): RegExp {
  return new RegExp(`temporal workflow unpause -w ${workflowId}`);
}

pausing('a paused permit keeps its slot past its lease; after the pause, the renewals count', async () => {
  const { client } = temporal;
  const resource = temporal.resource();
  const semaphore = pool(resource);
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: SHORT });
  const workflowId = permitId({ resource, slot: '0' });
  const fence = new TemporalFence(resource, client);
  await pauseWorkflow(client, workflowId);
  await delay(PAST_THE_LEASE_MS);

  const { held, free, slots, recent } = await operatorOf(semaphore).inspect();
  assert.deepEqual(
    [held, free, states({ slots } as never), slots[0]?.permit?.paused, recent],
    [1, 0, '0 held', true, []],
  );
  await fence.admit({ resource, slot: '0', runId });
  assert.equal(await semaphore.tryAcquire(), undefined);
  await eventually(async () => assert.equal((await listHolders(client, resource))[0]?.permit.paused, true));
  const { ls, why, doctor } = await told(resource, handle.workflowId);
  assert.match(ls, /0 +paused/);
  for (const said of [ls, why, doctor[0]?.advice ?? '', await onPage(semaphore)])
    assert.match(said, unpause(workflowId));
  assert.deepEqual(
    doctor.map(({ is }) => is),
    ['bad'],
  );
  assert.match(why, new RegExp(`${handle.workflowId} holds slot 0`));

  const next = await startHolder(temporal, { resource, semaphore: SHORT, holdMs: 0 });
  await untilWaiting(client, resource, 1);
  await unpauseWorkflow(client, workflowId);
  await eventually(async () => {
    const { slots } = await operatorOf(semaphore).inspect({ recent: 0 });
    assert.ok(slots[0]?.permit?.leaseDeadline, 'it tells its lease again');
    assert.equal(slots[0]?.permit?.runId, runId);
  });
  await untilAt(handle, 'holding');
  await handle.signal(workflows.finish);
  assert.equal((await handle.result()).at, 'done');
  await next.result();
  await assertSafe(client, resource, 1);
  await assert.rejects(fence.admit({ resource, slot: '0', runId }), StaleTokenError);
});

pausing('a paused permit whose holder is gone ends by its lease once it is unpaused', async () => {
  const { client } = temporal;
  const resource = temporal.resource();
  const semaphore = pool(resource, { ...SHORT, renewEvery: false });
  const permit = await semaphore.acquire();
  await pauseWorkflow(client, permit.workflowId);
  await delay(PAST_THE_LEASE_MS);
  await untilStates(semaphore, /^0 held$/);
  await unpauseWorkflow(client, permit.workflowId);
  await untilStates(semaphore, /^0 free$/);
  assert.equal(await client.workflow.getHandle(permit.workflowId, permit.runId).result(), 'lease-expired');
});

pausing('revoke of a paused permit says that it waits for the end of the pause, and takes effect then', async () => {
  const { client } = temporal;
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const workflowId = permitId({ resource, slot: '0' });
  await pauseWorkflow(client, workflowId);
  const revoked = await run('revoke', resource, '0', '--yes', '--reason', 'node drain');
  assert.equal(revoked.code, 69);
  assert.match(revoked.stderr, /keeps its slot/);
  assert.match(revoked.stderr, unpause(workflowId));
  await unpauseWorkflow(client, workflowId);
  await assertFails(handle.result(), 'PermitLostError', /revoked.*node drain/);
});

pausing("a client's permit that is paused past its lease stays held; its release says why it is not free", async () => {
  const { client } = temporal;
  const resource = temporal.resource();
  const semaphore = pool(resource);
  const permit = await semaphore.acquire({ preemptible: { grace: '1s' }, priority: { priorityKey: 3 } });
  const held = { runId: permit.runId, fromMs: Date.now() };
  await pauseWorkflow(client, permit.workflowId);
  await delay(PAST_THE_LEASE_MS);
  assert.equal(permit.isHeld, true);
  const next = await startHolder(temporal, { resource, semaphore: SHORT, holdMs: 0 });
  await untilWaiting(client, resource, 1);
  await assert.rejects(permit.release(), (error) => {
    assert.ok(error instanceof NoAnswerError, String(error));
    assert.equal(error.paused, permit.workflowId);
    return true;
  });
  await untilStates(semaphore, /^0 held$/);
  await unpauseWorkflow(client, permit.workflowId);
  await next.result();
  await assertSafe(client, resource, 1, [held]);
});

pausing('a paused queue: orders say so, waiters help themselves, and permit pools share', async () => {
  const { client } = temporal;
  const resource = temporal.resource();
  const patient = { capacity: 1, recheckAfter: '1s' } as const;
  const semaphore = pool(resource, patient);
  await using shared = new PermitPool(semaphore, { reuseFor: '500ms' });
  const own = await shared.acquire();
  const first = semaphore.acquire();
  await untilWaiting(client, resource, 1);
  const workflowId = queueId(resource);
  await pauseWorkflow(client, workflowId);

  const { queue, waiting, waiters, held } = await operatorOf(semaphore).inspect({ recent: 0 });
  assert.deepEqual({ queue, waiting, waiters, held }, { queue: 'paused', waiting: undefined, waiters: [], held: 1 });
  const nobody = await run('why', 'a-waiter', '--resource', resource);
  assert.equal(nobody.code, 69);
  const { ls, doctor } = await told(resource, 'a-waiter');
  for (const said of [ls, doctor[0]?.advice ?? '', nobody.stderr, await onPage(semaphore)])
    assert.match(said, unpause(workflowId));
  assert.deepEqual(
    doctor.map(({ is }) => is),
    ['bad'],
  );
  await eventually(async () => assert.match((await run('ls')).stdout, unpause(workflowId)));

  const order = operatorOf(semaphore).pause();
  await assert.rejects(order, (error) => error instanceof NoAnswerError && error.paused === workflowId);
  const unsized = await run('pause', resource, '--yes');
  assert.equal(unsized.code, 69, unsized.stderr);
  assert.match(unsized.stderr, unpause(workflowId));

  await own.release();
  const calls = new AbortController();
  const busy = (async () => {
    while (!calls.signal.aborted) await shared.withPermit(() => delay(50));
  })();
  await (await first).release();
  calls.abort();
  await busy;

  const late = await semaphore.acquire();
  const behind = semaphore.acquire();
  await unpauseWorkflow(client, workflowId);
  await untilWaiting(client, resource, 1);
  await late.release();
  await (await behind).release();
  await operatorOf(semaphore).pause();
  await operatorOf(semaphore).resume();
});

pausing('a paused holder loses its permit by its lease, is named, and learns of the loss after the pause', async () => {
  const { client } = temporal;
  const [resource, lasting] = [temporal.resource(), temporal.resource()];
  const { handle } = await startHolding(temporal, { resource, semaphore: SHORT });
  const other = await startHolding(temporal, { resource: lasting, semaphore: { capacity: 1 } });
  await pauseWorkflow(client, handle.workflowId);
  await pauseWorkflow(client, other.handle.workflowId);
  const next = await startHolding(temporal, { resource, semaphore: SHORT });

  const { why, doctor } = await told(lasting, other.handle.workflowId);
  const lost = (await run('why', handle.workflowId, '--resource', resource)).stdout;
  for (const said of [why, doctor[0]?.advice ?? '']) assert.match(said, unpause(other.handle.workflowId));
  assert.deepEqual(
    doctor.map(({ is }) => is),
    ['warning'],
  );
  assert.match(lost, unpause(handle.workflowId));

  await unpauseWorkflow(client, handle.workflowId);
  await unpauseWorkflow(client, other.handle.workflowId);
  await assertFails(handle.result(), 'PermitLostError', /lease/);
  await untilAt(next.handle, 'holding');
  for (const holder of [next.handle, other.handle]) await holder.signal(workflows.finish);
  await Promise.all([next.handle.result(), other.handle.result()]);
  await assertSafe(client, resource, 1);
});

pausing('paused waiters at the head of the line are passed over, named, and served after the pause', async () => {
  const { client } = temporal;
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const paused = [];
  for (let waiting = 1; waiting <= 3; waiting++) {
    paused.push(await startHolder(temporal, { resource, semaphore, holdMs: 0 }));
    await untilWaiting(client, resource, waiting);
  }
  for (const { workflowId } of paused) await pauseWorkflow(client, workflowId);
  const [first] = paused;
  assert.ok(first);
  const { why, doctor } = await told(resource, first.workflowId);
  assert.match(why, unpause(first.workflowId));
  assert.match(
    doctor.map(({ is, what }) => `${is} ${what}`).join('\n'),
    /^warning .* \(and 2 more like it\), is paused/,
  );
  const live = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await untilWaiting(client, resource, 4);
  await handle.signal(workflows.finish);
  await handle.result();
  assert.equal((await live.result()).at, 'done');
  for (const { workflowId } of paused) await unpauseWorkflow(client, workflowId);
  for (const waiter of paused) assert.equal((await waiter.result()).at, 'done');
  await until(async () => (await operatorOf(pool(resource)).inspect({ recent: 0 })).free === 1);
  await assertSafe(client, resource, 1);
});
