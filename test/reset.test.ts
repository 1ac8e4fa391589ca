import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { SemaphoreClient } from '../src/client';
import { permitId } from '../src/shared/permit-id';
import { assertFails, startHolder, startHolding, startOptions, untilAt } from './support/holders';
import { assertSafe, eventually, untilWaiting, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

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

test('a holder that is reset to before its acquire waits for its own old permit, until an operator revokes that', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle, runId } = await startHolding(temporal, { resource, semaphore });
  const { runId: oldRun } = await handle.describe();
  const again = await reset(handle.workflowId, 'first');
  await untilWaiting(temporal.client, resource, 1);

  const pool = new SemaphoreClient(temporal.client, resource, { ...semaphore, taskQueue: temporal.taskQueue });
  const { slots, waiters } = await pool.inspect();
  assert.equal(slots[0]?.permit?.holder.runId, oldRun, 'by which an operator sees that its holder is gone');
  assert.equal(slots[0]?.permit?.holder.workflowId, waiters[0]?.workflowId);
  await pool.revoke('0', { runId, reason: 'its holder was reset' });
  await untilAt(again, 'holding');
  await again.signal(workflows.finish);
  assert.equal((await again.result()).at, 'done');
  await assertSafe(temporal.client, resource, 1);
});

test('a holder that is reset to behind its acquire, and then ends without a release, has its permit freed by the lease', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1, lease: '3s' } });
  const again = await reset(handle.workflowId, 'last');
  await untilAt(again, 'holding');
  await again.terminate();
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await permit.result(), 'lease-expired');
  await assertSafe(temporal.client, resource, 1);
});

test('a waiter that is reset keeps its place: its turn comes to the new run at once', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const waiter = await startHolder(temporal, { resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  await delay(500); // it has parked
  const again = await reset(waiter.workflowId, 'last');
  await delay(500);
  await first.handle.signal(workflows.finish);
  const sinceMs = performance.now();
  await untilAt(again, 'holding');
  assert.ok(performance.now() - sinceMs < 10_000, 'it was forgotten until it asked');
  await again.signal(workflows.finish);
  assert.equal((await again.result()).at, 'done');
});

test('a waiter that is reset and then cancelled leaves the line at once', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const waiter = await startHolder(temporal, { resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  await delay(500); // it has parked
  const again = await reset(waiter.workflowId, 'last');
  await delay(500);
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
  const { workflowId } = await temporal.client.workflow.start(workflows.manyHolder, {
    ...startOptions(temporal, 'many'),
    args: [{ resource, semaphore: { capacity: 2 } }, 2],
  });
  await untilWaiting(temporal.client, resource, 1);
  await delay(500); // it has parked
  const again = await reset(workflowId, 'last');
  await pool.resize(1);
  const sinceMs = performance.now();
  await eventually(async () => {
    const holders = (await pool.inspect()).slots.map(({ permit }) => permit?.holder.workflowId);
    assert.ok(!holders.includes(workflowId), 'the queue may have its slot, to keep it out of use');
  });
  assert.ok(performance.now() - sinceMs < 12_000, 'it kept a slot that it could not use, until it asked by itself');
  await again.cancel();
  await assert.rejects(again.result());
  await pool.resize(2);
  await taken.release();
});

test('a holder that was reset to after its acquire learns why its permit is revoked', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const again = await reset(handle.workflowId, 'last');
  const pool = new SemaphoreClient(temporal.client, resource, { ...semaphore, taskQueue: temporal.taskQueue });
  await pool.revoke('0', { reason: 'node drain' });
  await assertFails(again.result(), 'PermitLostError', /revoked it \(node drain\)/);
});

test('a holder that has ended, and is reset to after its acquire, finds its permit gone', {
  timeout: 60_000,
}, async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: 3_000 };
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
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1, lease: 3_000 } });
  const again = await reset(handle.workflowId, 'last');
  await delay(4_000);
  assert.equal((await untilAt(again, 'holding')).runId, runId, 'renewed past its lease');
  await again.signal(workflows.finish);
  assert.equal((await again.result()).at, 'done');
});
