import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { SemaphoreClient } from '../../../src/client';
import { permitId } from '../../../src/shared/permit-id';
import { assertFails, startHolder, startHolding, startOptions, untilAt } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { untilRenewedAgain } from '../../support/permit-signals';
import { assertSafe, eventually, until, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/** Resets a Workflow to before (`first`) or after (`last`) all that it has done, or to the end of that task. @returns the new run */
async function reset(workflowId: string, to: 'first' | 'last' | HistoryEvent['eventId']) {
  const { workflowService } = temporal.client;
  const { events } = await temporal.client.workflow.getHandle(workflowId).fetchHistory();
  const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  const { runId } = await workflowService.resetWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId },
    workflowTaskFinishEventId: typeof to === 'string' ? tasks.at(to === 'first' ? 0 : -1)?.eventId : to,
    requestId: randomUUID(),
    reason: 'test',
  });
  return temporal.client.workflow.getHandle<typeof workflows.holder>(workflowId, runId);
}

/** Waits until it has nothing left to do before its turn. */
async function untilParked(waiter: Pick<WorkflowHandle, 'fetchHistory'>): Promise<void> {
  await until(async () => {
    const { events } = await waiter.fetchHistory();
    const tasks = events?.filter((event) =>
      Object.keys(event).some((key) => key.startsWith('workflowTask') && event[key as 'eventId']),
    );
    return tasks?.at(-1)?.workflowTaskCompletedEventAttributes;
  });
}

test('a holder that is reset to before its acquire waits for its own old permit, until an operator revokes that', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle, runId } = await startHolding(temporal, { resource, semaphore });
  const { runId: oldRun } = await handle.describe();
  const again = await reset(handle.workflowId, 'first');
  await untilWaiting(temporal.client, resource, 1);

  const pool = new SemaphoreClient(temporal.client, resource, { ...semaphore, taskQueue: temporal.taskQueue });
  const { slots, waiters } = await operatorOf(pool).inspect();
  assert.equal(slots[0]?.permit?.holder.runId, oldRun, 'by which an operator sees that its holder is gone');
  assert.equal(slots[0]?.permit?.holder.workflowId, waiters[0]?.workflowId);
  await operatorOf(pool).revoke('0', { runId, reason: 'its holder was reset' });
  await untilAt(again, 'holding');
  await again.signal(workflows.finish);
  assert.equal((await again.result()).at, 'done');
  await assertSafe(temporal.client, resource, 1);
});

test('a holder that is reset to behind its acquire, and then ends without a release, has its permit freed by the lease', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1, lease: '5s' } });
  const again = await reset(handle.workflowId, 'last');
  await untilAt(again, 'holding');
  await again.terminate();
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await permit.result(), 'lease-expired');
  await assertSafe(temporal.client, resource, 1);
});

/** A holder, and a waiter behind it that has been reset and is parked again. */
async function resetWhileWaiting() {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, recheckAfter: '10 minutes' } as const;
  const first = await startHolding(temporal, { resource, semaphore });
  const waiter = await startHolder(temporal, { resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  await untilParked(waiter);
  const again = await reset(waiter.workflowId, 'last');
  await untilParked(again);
  return { resource, first, again };
}

test('a waiter that is reset keeps its place: its turn comes to the new run at once', async () => {
  const { first, again } = await resetWhileWaiting();
  await first.handle.signal(workflows.finish);
  await untilAt(again, 'holding'); // by its turn: it asks by itself only after minutes
  await again.signal(workflows.finish);
  assert.equal((await again.result()).at, 'done');
});

test('a waiter that is reset and then cancelled leaves the line at once', async () => {
  const { resource, first, again } = await resetWhileWaiting();
  await again.cancel();
  await again.result().catch(() => undefined);
  await untilWaiting(temporal.client, resource, 0);
  await first.handle.signal(workflows.finish);
  await first.handle.result();
});

test('an accumulator that is reset hears that too few slots are left for it, and gives back what it has', async () => {
  const resource = temporal.resource();
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 2, taskQueue: temporal.taskQueue });
  const taken = await pool.acquire();
  const large = await temporal.client.workflow.start(workflows.manyHolder, {
    ...startOptions(temporal, 'many'),
    args: [{ resource, semaphore: { capacity: 2, recheckAfter: '10 minutes' } }, 2],
  });
  const { workflowId } = large;
  await untilWaiting(temporal.client, resource, 1);
  await untilParked(large);
  const again = await reset(workflowId, 'last');
  await operatorOf(pool).resize(1);
  await eventually(async () => {
    const holders = (await operatorOf(pool).inspect()).slots.map(({ permit }) => permit?.holder.workflowId);
    assert.ok(!holders.includes(workflowId), 'the queue may have its slot, to keep it out of use');
  });
  await again.cancel();
  await assert.rejects(again.result());
  await operatorOf(pool).resize(2);
  await taken.release();
});

test('a holder that was reset to after its acquire learns why its permit is revoked', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const again = await reset(handle.workflowId, 'last');
  const pool = new SemaphoreClient(temporal.client, resource, { ...semaphore, taskQueue: temporal.taskQueue });
  await operatorOf(pool).revoke('0', { reason: 'node drain' });
  await assertFails(again.result(), 'PermitLostError', /revoked it \(node drain\)/);
});

test('a holder that has ended, and is reset to after its acquire, finds its permit gone', {
  timeout: 60_000,
}, async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, renewEvery: 300 };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const { events } = await handle.fetchHistory();
  const acquired = events?.filter((event) => event.workflowTaskCompletedEventAttributes).at(-1)?.eventId;
  await handle.signal(workflows.finish);
  await handle.result();
  const again = await reset(handle.workflowId, acquired);
  await assertFails(again.result(), 'PermitLostError', /./);
});

test('a holder that is reset to after its acquire goes on under its permit', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1, renewEvery: 300 } });
  const again = await reset(handle.workflowId, 'last');
  assert.equal(await untilRenewedAgain(temporal, resource), runId);
  assert.equal((await untilAt(again, 'holding')).runId, runId);
  await again.signal(workflows.finish);
  assert.equal((await again.result()).at, 'done');
});
