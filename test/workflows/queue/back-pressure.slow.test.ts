import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  LineFullError,
  type Permit,
  PermitTimeoutError,
  SemaphoreClient,
  type SemaphoreClientOptions,
} from '../../../src/client';
import { permitId } from '../../../src/shared/permit-id';
import { PERMIT_STATUS, type PermitStatus } from '../../../src/shared/protocol';
import type { AcquireOptions, SemaphoreOptions } from '../../../src/workflow';
import { assertFails, startHolder, startHolding, startOptions } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { eventually, queueView, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

function clientOf(resource: string, options: Partial<SemaphoreClientOptions> = {}): SemaphoreClient {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, ...options });
}

/** Which slot a Workflow worked under, `none` for none. */
async function slotOf(workflow: typeof workflows.inline, resource: string, acquire?: AcquireOptions): Promise<string> {
  return await temporal.client.workflow.execute(workflow, {
    ...startOptions(temporal, 'inline'),
    args: [{ resource, semaphore: { capacity: 1 }, acquire }],
  });
}

const slot = async (permit?: Permit) => permit?.slot ?? 'none';

/** The same outside Workflows. */
async function inline(semaphore: SemaphoreClient): Promise<string> {
  const permit = await semaphore.tryAcquire();
  try {
    return await slot(permit);
  } finally {
    await permit?.release();
  }
}

/** Works without a permit where the line is full. */
async function governed(semaphore: SemaphoreClient): Promise<string> {
  return await semaphore.withPermit(slot, { maxWaiting: 1 }).catch((error: unknown) => {
    if (!(error instanceof LineFullError)) throw error;
    return slot();
  });
}

test('saturated: wait, reject, or work inline without a permit', async () => {
  const resource = temporal.resource();
  const client = clientOf(resource);
  assert.equal(await inline(client), '0');
  assert.equal(await slotOf(workflows.inline, resource), '0');

  const held = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  assert.equal(await inline(client), 'none');
  assert.equal(await slotOf(workflows.inline, resource), 'none');
  let ran = false;
  const rejected = client.withPermit(
    async () => {
      ran = true;
    },
    { timeout: 0 },
  );
  await assert.rejects(rejected, PermitTimeoutError);
  assert.equal(ran, false);
  await assert.rejects(
    slotOf(workflows.governed, resource, { timeout: 0 }),
    (error: Error) =>
      (error.cause as Error).name === 'ApplicationFailure' && /all slots are held/.test(String(error.cause)),
  );
  assert.equal(await queueView(temporal.client, resource), undefined, 'nobody has lined up');

  // The governor: a line of one, and the others do the work themselves.
  const waiting = governed(client);
  await untilWaiting(temporal.client, resource, 1);
  assert.equal(await governed(client), 'none');
  assert.equal(await slotOf(workflows.governed, resource, { maxWaiting: 1 }), 'none');
  await held.handle.signal(workflows.finish);
  assert.equal(await waiting, '0');
});

test('an acquire that does not wait tries every slot once, and never parks', async () => {
  const resource = temporal.resource();
  const slots = ['a', 'b', 'c', 'd', 'e'];
  const semaphore: SemaphoreOptions = { slots };
  const client = clientOf(resource, { capacity: undefined, slots });
  const holder = await temporal.client.workflow.start(workflows.holdEach, {
    ...startOptions(temporal),
    args: [{ resource, semaphore }],
  });
  await eventually(async () => {
    const { slots } = await operatorOf(client).inspect({ recent: 0 });
    assert.ok(slots.every(({ state }) => state === 'held'));
  });
  await assert.rejects(client.acquire({ timeout: 0 }), PermitTimeoutError);
  assert.equal(await client.tryAcquire(), undefined);
  const trier = await startHolder(temporal, { resource, semaphore, acquire: { timeout: 0 } });
  await assertFails(trier.result(), 'PermitTimeoutError', /all slots are held/);
  const { events } = await trier.fetchHistory();
  const tried = events?.filter((event) => event.startChildWorkflowExecutionInitiatedEventAttributes);
  const names = tried?.map((event) => event.startChildWorkflowExecutionInitiatedEventAttributes?.workflowId);
  assert.deepEqual(
    names?.sort(),
    slots.map((slot) => permitId({ resource, slot })),
  );
  assert.equal(await queueView(temporal.client, resource), undefined);
  await holder.signal(workflows.finish);
  await holder.result();
  await (await client.acquire({ timeout: 0 })).release();
});

test('a renewal for another duration outlasts a silent holder, and shortens nothing', async () => {
  const resource = temporal.resource();
  const silent = (lease: number) =>
    temporal.client.workflow.execute(workflows.silentHolder, {
      ...startOptions(temporal, 'silent'),
      args: [{ resource: temporal.resource(), semaphore: { capacity: 1, lease: 3_000 } }, lease, 5_000],
    });
  const inWorkflows = Promise.all([silent(60_000), silent(3_000)]);

  const client = clientOf(resource, { lease: 10_000, renewEvery: false });
  const permit = await client.acquire();
  const { workflowId, runId } = permit;
  const permitRun = temporal.client.workflow.getHandle(workflowId, runId);
  const deadlineMs = async () => (await permitRun.query<PermitStatus>(PERMIT_STATUS)).deadlineMs;
  const fromMs = Date.now();
  await permit.renew('1 minute');
  const longerMs = await deadlineMs();
  assert.ok(longerMs >= fromMs + 55_000, `${longerMs - fromMs}`);
  assert.ok(permit.deadline.getTime() > fromMs + 55_000);
  await permit.renew();
  await permit.renew(1);
  assert.ok(permit.deadline.getTime() > fromMs + 55_000);
  assert.equal(await deadlineMs(), longerMs);
  await assert.rejects(permit.renew(0), /lease: expected a duration of 1 ms or more/);
  await permit.release();
  assert.deepEqual(await inWorkflows, ['held', 'lease-expired']);
});

test('a renewal tells when the lease ends then: not before what was asked for, unless maxHold comes first', async () => {
  const semaphore = { capacity: 1, lease: '10s', renewEvery: false } as const;
  const [longMs, dayMs] = [60 * 60_000, 24 * 60 * 60_000];
  const inWorkflow = (lease: number) =>
    temporal.client.workflow.execute(workflows.longRenewer, {
      ...startOptions(temporal, 'renewer'),
      args: [{ resource: temporal.resource(), semaphore }, lease],
    });
  const inClient = async (lease: number) => {
    const fromMs = Date.now();
    await using permit = await clientOf(temporal.resource(), semaphore).acquire();
    return (await permit.renew(lease)).getTime() - fromMs;
  };
  for (const renew of [inWorkflow, inClient]) {
    assert.ok((await renew(longMs)) >= longMs);
    const cappedMs = await renew(2 * dayMs);
    // A client's lease runs by another clock than Date.now().
    assert.ok(cappedMs > dayMs - 100 && cappedMs < 2 * dayMs, String(cappedMs));
  }
});
