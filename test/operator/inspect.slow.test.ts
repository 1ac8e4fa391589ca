import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { SemaphoreClient } from '../../src/client';
import { mapConcurrently } from '../../src/client/server/map-concurrently';
import { Operator } from '../../src/operator';
import { resourcesInUse } from '../../src/operator/resources-in-use';
import { queueId } from '../../src/shared/permit-id';
import { PERMIT_WORKFLOW, type Ticket } from '../../src/shared/protocol';
import { operatorOf } from '../support/operators';
import { eventually, until, untilWaiting, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

const temporal = useTemporal();

test('100 slots and 1,000 waiters are shown', async (t) => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const options = { lease: '5 minutes', renewEvery: false, taskQueue } as const;
  const semaphore = new SemaphoreClient(client, resource, { capacity: 100, ...options });
  // Each has a slot of its own: on a busy machine, one that looks for a free slot among a hundred is late.
  const slots = Array.from(
    { length: 100 },
    (_, slot) => new SemaphoreClient(client, resource, { slots: [`${slot}`], ...options }),
  );
  const permits = await mapConcurrently(slots, (slot) => slot.acquire({ timeout: '1 minute' }));
  const tickets: Ticket[] = Array.from({ length: 1_000 }, (_, index) => ({
    id: randomUUID(),
    waiter: { workflowId: `waiter-${index}`, runId: randomUUID() },
    slots: 100,
    sinceMs: Date.now() - 1_000 + index,
    priorityKey: 1 + (index % 5),
    fairnessKey: `team-${index % 7}`,
  }));
  const queue = await temporal.client.workflow.start(workflows.waitQueueWorkflow, {
    workflowId: queueId(resource),
    taskQueue: temporal.taskQueue,
    args: [{ tickets }],
  });
  await untilWaiting(temporal.client, resource, 1_000);
  // A slow machine may answer too late for the waiters, and for some leases.
  await eventually(async () => {
    const startedMs = performance.now();
    const { slots, waiters } = await operatorOf(semaphore).inspect();
    const leases = slots.filter(({ permit }) => permit?.leaseDeadline).length;
    t.diagnostic(`inspect took ${Math.round(performance.now() - startedMs)} ms, with ${leases} of 100 leases`);
    const held = slots.flatMap(({ permit }) => permit?.runId ?? []);
    assert.deepEqual(held.sort(), permits.map(({ runId }) => runId).sort());
    assert.equal(waiters.length, 1_000);
    assert.ok(leases > 0);
  });
  await queue.terminate();
  await Promise.all(permits.map((permit) => permit.release()));
});

test('a thousand newer permits of other resources hide no older one', async () => {
  const resource = temporal.resource();
  const addresses = Array.from({ length: 1_001 }, (_, index) => `${resource}-${index % 3}:${Math.floor(index / 3)}`);
  const { client } = temporal;
  const start = async (address: string, identity: string) => {
    const holder = { identity };
    const memo = { leaseMs: 60_000, holder };
    const workflowId = `permit:${address}`;
    await client.workflow.start(PERMIT_WORKFLOW, { workflowId, taskQueue: 'of-nobody', memo, args: [memo] });
  };
  try {
    await start(`${resource}:0`, 'the-first');
    await mapConcurrently(addresses, async (address) => await start(address, 'another'));
    await until(async () => {
      const { count } = await client.workflow.count(`WorkflowId STARTS_WITH "permit:${resource}"`);
      return count === addresses.length + 1;
    });
    const seen = [...(await resourcesInUse(client))].filter(([name]) => name.startsWith(resource));
    assert.deepEqual(seen.map(([name, { held }]) => [name, held.length]).sort(), [
      [resource, 1],
      ...[0, 1, 2].map((index) => [`${resource}-${index}`, index < 2 ? 334 : 333]),
    ]);
    const { slots } = await new Operator(client, resource).inspect({ recent: 0 });
    assert.equal(slots[0]?.permit?.holder.identity, 'the-first');
  } finally {
    await mapConcurrently([`${resource}:0`, ...addresses], async (address) => {
      await client.workflow.getHandle(`permit:${address}`).terminate();
    });
  }
});
