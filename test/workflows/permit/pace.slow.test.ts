import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { permitsQuery } from '../../../scripts/support/holder-intervals';
import {
  acquireAll,
  PermitLostError,
  PermitPool,
  type PermitRef,
  SemaphoreClient,
  type SemaphoreClientOptions,
} from '../../../src/client';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { RELEASE, REVOKE } from '../../../src/shared/protocol';
import type { SemaphoreOptions } from '../../../src/workflow';
import { withHistories } from '../../support/changed-history';
import { assertFails, startHolder, startHolding, startOptions } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { assertNoPermitLeft, eventually, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

function clientOf(resource: string, options: Partial<SemaphoreClientOptions>): SemaphoreClient {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue, ...options });
}

/** How long each permit has run, by the server's clock: while it runs, nobody can take its slot. */
async function runsOf(resource: string, count: number): Promise<number[]> {
  return await eventually(async () => {
    const runs: number[] = [];
    for await (const { startTime, closeTime, type } of temporal.client.workflow.list({
      query: permitsQuery(resource),
    })) {
      assert.equal(type, 'pacedPermitWorkflow');
      runs.push(Number(closeTime) - Number(startTime));
    }
    assert.equal(runs.length, count);
    return runs;
  });
}

test('whatever its holder does or dies of, a slot is not given again before its pace is over', async (t) => {
  const resource = temporal.resource('pace');
  const EVERY_MS = 1_500;
  const semaphore: SemaphoreOptions = { capacity: 4, pace: { every: EVERY_MS } };
  const input = { resource, semaphore };
  const client = clientOf(resource, semaphore);
  // A holder that is terminated, one that fails, one that returns at once, one that continues as new without a release.
  const killed = await startHolding(temporal, input);
  await killed.handle.terminate();
  const failing = await startHolder(temporal, { ...input, holdMs: 0, ending: 'fail' });
  const returning = await startHolder(temporal, { ...input, holdMs: 0 });
  const leaving = await temporal.client.workflow.start(workflows.bareHolder, {
    ...startOptions(temporal),
    args: [input],
  });
  await leaving.signal(workflows.finish);
  // A client that dies: it is silent, and its lease is shorter than the pace.
  const dead = clientOf(resource, { ...semaphore, lease: '500ms', renewEvery: false }).acquire();
  await Promise.all([dead, assertFails(failing.result(), 'AsAsked', /as asked/), returning.result()]);
  await eventually(async () => {
    const next = temporal.client.workflow.getHandle(leaving.workflowId);
    assert.equal((await next.query(workflows.stage)).at, 'holding');
    assert.notEqual((await next.describe()).runId, leaving.firstExecutionRunId);
  });
  await temporal.client.workflow.getHandle(leaving.workflowId).signal(workflows.finish);
  await temporal.client.workflow.getHandle(leaving.workflowId).result();
  await client.withPermit(async () => undefined);
  await assertNoPermitLeft(temporal.client, resource);

  const runs = await runsOf(resource, 7);
  t.diagnostic(`each slot was taken for ${runs.sort((a, b) => a - b)} ms`);
  assert.ok(Math.min(...runs) >= EVERY_MS);
});

test('nobody waits for the pace: who releases goes on at once, and an operator can end it', async () => {
  const resource = temporal.resource('pace');
  const semaphore: SemaphoreOptions = { capacity: 3, pace: { every: '10 minutes' } };
  const client = clientOf(resource, semaphore);
  const input = { resource, semaphore };
  await client.withPermit(async () => undefined);
  await (await startHolder(temporal, { ...input, holdMs: 0 })).result();
  // Acquired in one run, released by the next, which has adopted it.
  const relay = { ...startOptions(temporal), args: [input, 2] as [typeof input, number] };
  await temporal.client.workflow.execute(workflows.relay, relay);
  const { slots } = await eventually(async () => {
    const seen = await operatorOf(client).inspect({ recent: 0 });
    assert.deepEqual(
      seen.slots.map(({ state }) => state),
      ['paced', 'paced', 'paced'],
    );
    return seen;
  });
  const leftMs = (slots[0]?.permit?.pacedUntil?.getTime() ?? 0) - Date.now();
  assert.ok(leftMs > 60_000 && leftMs <= 600_000, `${leftMs}`);
  assert.equal(await client.tryAcquire(), undefined);

  const waiting = client.acquire();
  await untilWaiting(temporal.client, resource, 1);
  await operatorOf(client).revoke('1');
  const permit = await waiting;
  assert.equal(permit.slot, '1');
  for (const slot of ['0', '2', '1']) await operatorOf(client).revoke(slot);
  await eventually(async () => assert.ok(permit.signal.aborted, 'a holder is told at once'));
});

test('who has held a permit for longer than its pace finds its slot free after the release, as without a pace', async () => {
  const resource = temporal.resource('pace');
  const semaphore = { capacity: 1, pace: { every: '200ms' } } as const;
  const client = clientOf(resource, semaphore);
  await client.withPermit(() => delay(1_500));
  const permit = (await client.tryAcquire()) ?? assert.fail('the slot is taken');
  await permit.release();
  await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).result(); // its pace is over
  const args: [{ resource: string; semaphore: SemaphoreOptions }, number] = [{ resource, semaphore }, 1_500];
  const holder = await temporal.client.workflow.start(workflows.twice, { ...startOptions(temporal), args });
  await holder.result();
  const { events } = await holder.fetchHistory();
  const order = events?.flatMap((it) => {
    if (it.startChildWorkflowExecutionInitiatedEventAttributes) return 'claim';
    return it.childWorkflowExecutionCompletedEventAttributes ? 'end' : [];
  });
  assert.deepEqual(order, ['claim', 'end', 'claim', 'end']);
});

test('the holds of a paced slot are listed as the holders had them, without the rest of the pace', async () => {
  const resource = temporal.resource('pace');
  const client = clientOf(resource, { pace: { every: '3s' } });
  const permit = await client.acquire();
  await permit.release();
  const [past] = await eventually(async () => {
    const { recent } = await operatorOf(client).inspect();
    assert.equal(recent.length, 1);
    return recent;
  });
  assert.deepEqual([past?.runId, past?.outcome], [permit.runId, 'released']);
  const { startTime, closeTime } = await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).describe();
  assert.deepEqual(past?.from, startTime);
  assert.ok(Number(past?.to) >= Number(startTime) && Number(past?.to) < Number(closeTime), `${past?.to}`);
});

test('a revocation that comes with the release ends the pace', async () => {
  const resource = temporal.resource('pace');
  const taskQueue = `${temporal.taskQueue}-late`; // both are there when its worker starts
  const client = clientOf(resource, { pace: { every: '10 minutes' }, taskQueue });
  const { workflowId, runId } = (await client.acquire()).detach();
  const permit = temporal.client.workflow.getHandle(workflowId, runId);
  await permit.signal(RELEASE);
  await permit.signal(REVOKE, {});
  await temporal.worker({ taskQueue });
  assert.equal(await permit.result(), 'released');
});

test('a cancelled permit tells its queue, and a released one that has no pace is gone at once', async () => {
  const resource = temporal.resource('pace');
  const permit = await temporal.client.workflow.start(workflows.permitSlotWorkflow, {
    workflowId: permitId({ resource, slot: '0' }),
    taskQueue: temporal.taskQueue,
    args: [{ leaseMs: 60_000, holder: { identity: 'test' }, watchedBy: queueId(resource) }],
  });
  await permit.cancel();
  assert.equal(await permit.result(), 'released');
  const { events } = await permit.fetchHistory();
  const told = events?.map((it) => it.signalExternalWorkflowExecutionInitiatedEventAttributes?.signalName);
  assert.ok(told?.includes('closing'), 'the queue was not told');
});

test('a paced permit that was terminated before its release is lost, although nobody had heard of it', async () => {
  const resource = temporal.resource('pace');
  const slowClient = withHistories(temporal.client, async (_request, ask) => {
    const answer = await ask();
    await delay(300); // the release comes before it
    return answer;
  });
  const options = { capacity: 1, taskQueue: temporal.taskQueue, pace: { every: '2s' } } as const;
  const client = new SemaphoreClient(slowClient, resource, options);
  const terminate = async ({ workflowId, runId }: Pick<PermitRef, 'workflowId' | 'runId'>) => {
    await temporal.client.workflow.getHandle(workflowId, runId).terminate();
    return 'done';
  };
  await assert.rejects(client.withPermit(terminate), PermitLostError);
  const set = await acquireAll([client]); // as the command `run` has it
  await terminate(set.permits[0]);
  await set.release();
  assert.equal((await set.confirmLoss())?.how, 'terminated');
  assert.equal(await client.withPermit(async () => 'done'), 'done');
});

test('a pace that can be none is refused, and so is one where permits are reused', async () => {
  const refused: [unknown, RegExp][] = [
    ['1s', /pace: expected an object such as \{ every: "1s" \}, or false/],
    [true, /pace: .*got true/],
    [{}, /pace\.every: expected a duration of 1 ms to 18 h 14 min, a minute less than maxHold, got undefined/],
    [{ every: 0 }, /pace\.every: .*got 0/],
    [{ every: 'soon' }, /pace\.every: .*got "soon"/],
    [{ every: '5 years' }, /pace\.every: .*got "5 years"/],
  ];
  for (const [pace, expected] of refused) {
    assert.throws(() => clientOf('pool', { pace: pace as never }), expected);
  }
  const paced = clientOf('pool', { pace: { every: '1s' } });
  assert.throws(
    () => new PermitPool(paced),
    /PermitPool can't be combined with a pace: .* Call the SemaphoreClient itself\.$/,
  );
});
