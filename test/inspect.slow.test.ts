import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { SemaphoreClient } from '../src/client';
import { mapConcurrently } from '../src/client/map-concurrently';
import { PoolByName, poolsInUse } from '../src/client/operators';
import { queueId } from '../src/shared/permit-id';
import { PERMIT_WORKFLOW, type Ticket } from '../src/shared/protocol';
import { until, untilWaiting, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal();

test('100 slots and 1,000 waiters are shown in less than a second', async (t) => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const pool = new SemaphoreClient(client, resource, {
    capacity: 100,
    lease: '5 minutes',
    renewEvery: false,
    taskQueue,
  });
  const permits = await Promise.all(Array.from({ length: 100 }, () => pool.tryAcquire()));
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
  const tookMs: number[] = [];
  const cpuBefore = process.cpuUsage();
  // What it costs is the least of some: the machine may be busy with other things, and leases then be left out.
  for (let count = 0; count < 3 || (count < 40 && !(Math.min(...tookMs) < 1_000)); count++) {
    const startedMs = performance.now();
    const { slots, waiters } = await pool.inspect();
    const wasMs = Math.round(performance.now() - startedMs);
    if (slots.filter(({ permit }) => permit?.leaseDeadline).length === 100 && waiters.length === 1_000)
      tookMs.push(wasMs);
  }
  const cpu = process.cpuUsage(cpuBefore);
  const cpuMs = Math.round((cpu.user + cpu.system) / 1_000 / tookMs.length);
  t.diagnostic(`inspect took ${tookMs.join(', ')} ms, and client and worker ${cpuMs} ms of CPU time each time`);
  assert.ok(Math.min(...tookMs) < 1_000);
  await queue.terminate();
  await Promise.all(permits.map((permit) => permit?.release()));
});

test('a thousand newer permits of other pools hide no older one', async () => {
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
    const pools = await poolsInUse(client, { taskQueue: temporal.taskQueue });
    assert.deepEqual(
      pools.filter((it) => it.resource.startsWith(resource)).map((it) => [it.resource, it.slots.length]),
      [[resource, 1], ...[0, 1, 2].map((index) => [`${resource}-${index}`, index < 2 ? 334 : 333])],
    );
    const byName = new PoolByName(client, resource, { taskQueue: temporal.taskQueue });
    const { slots } = await byName.inspect({ recent: 0, search: true });
    assert.equal(slots[0]?.permit?.holder.identity, 'the-first');
  } finally {
    await mapConcurrently([`${resource}:0`, ...addresses], async (address) => {
      await client.workflow.getHandle(`permit:${address}`).terminate();
    });
  }
});
