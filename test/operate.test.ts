import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  NoAnswerError,
  NotHeldError,
  PermitLostError,
  SemaphoreClient,
  type SemaphoreClientOptions,
} from '../src/client';
import { assertFails, startHolder, startHolding } from './support/holders';
import { assertNoPermitLeft, assertSafe, untilWaiting, useTemporal } from './support/temporal';

const temporal = useTemporal();

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
  const revoked = await pool.revoke('0', { reason: 'node drain' });
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
    await pool.revoke(permit.slot, { runId: permit.runId, reason: 'node drain' });
    if (!permit.signal.aborted) await new Promise((resolve) => permit.signal.addEventListener('abort', resolve));
  });
  await assert.rejects(losing, (error) => {
    assert.ok(error instanceof PermitLostError);
    assert.deepEqual([error.how, error.reason], ['revoked', 'node drain']);
    return true;
  });
});

test('what nobody holds, or another run than was named, is not revoked', async () => {
  const resource = temporal.resource();
  const pool = semaphore(resource, { capacity: 1 });
  await assert.rejects(pool.revoke('0'), (error) => {
    assert.ok(error instanceof NotHeldError);
    assert.deepEqual([error.resource, error.slot, error.runId], [resource, '0', undefined]);
    assert.match(error.message, /Nobody holds slot "0"/);
    return true;
  });
  const former = await pool.acquire();
  await former.release();
  const permit = await pool.acquire();
  await assert.rejects(pool.revoke('0', { runId: former.runId }), NotHeldError);
  await permit.renew();
  await permit.release();
  await assert.rejects(pool.revoke('0'), NotHeldError);
});

test('without a worker an order fails in time', async () => {
  const resource = temporal.resource();
  const taskQueue = `${temporal.taskQueue}-gone`;
  const pool = semaphore(resource, { taskQueue });
  const permit = await pool.acquire({ lease: '2 minutes' });
  await assert.rejects(pool.revoke(permit.slot, { timeout: 700 }), (error) => {
    assert.ok(error instanceof NoAnswerError);
    assert.equal(error.timeoutMs, 700);
    return true;
  });
  await assert.rejects(pool.pause({ timeout: 700 }), NoAnswerError);
  const worker = await temporal.worker({ taskQueue });
  await permit.release();
  await pool.resume();
  await assertNoPermitLeft(temporal.client, resource);
  await worker.stop();
});
