import assert from 'node:assert/strict';
import { test } from 'node:test';
import { permitId, queueId } from '../src/shared/permit-id';
import { startHolding, startOptions } from './support/holders';
import { assertSafe, untilWaiting, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

async function eventsOf(workflowId: string, runId?: string): Promise<number> {
  return (await temporal.client.workflow.getHandle(workflowId, runId).describe()).historyLength ?? 0;
}

/** A Workflow that does nothing but hold for no time. */
async function startPlain(resource: string) {
  return await temporal.client.workflow.start(workflows.crowd, {
    ...startOptions(temporal),
    args: [{ resource, semaphore: { capacity: 1 } }, 1],
  });
}

test('a plain withPermit costs its Workflow 19 events, and its permit has 10', async () => {
  const resource = temporal.resource();
  const plain = await startPlain(resource);
  await plain.result();
  // Each answer of the server is an event, and a Workflow Task of three. So these do not vary.
  const events = [await eventsOf(plain.workflowId), await eventsOf(permitId({ resource, slot: '0' }))];
  assert.deepEqual(events, [19, 10]);
  await assertSafe(temporal.client, resource, 1);
});

test('a preemptible withPermit costs no more while nobody asks, however many checkpoints it passes', async () => {
  const resource = temporal.resource();
  const acquire = { priority: { priorityKey: 4 }, preemptible: { grace: '1s', atCheckpoints: true } } as const;
  const unasked = await temporal.client.workflow.start(workflows.unasked, {
    ...startOptions(temporal),
    args: [{ resource, semaphore: { capacity: 1 }, acquire }, 50],
  });
  assert.equal(await unasked.result(), true);
  const events = [await eventsOf(unasked.workflowId), await eventsOf(permitId({ resource, slot: '0' }))];
  assert.deepEqual(events, [19, 10]);
});

test('a withPermit that had to wait costs no more than its share', async () => {
  const resource = temporal.resource();
  const first = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const waiter = await startPlain(resource);
  await untilWaiting(temporal.client, resource, 1);
  await first.handle.signal(workflows.finish);
  await waiter.result();
  const permit = await eventsOf(permitId({ resource, slot: '0' }));
  await temporal.client.workflow.getHandle(queueId(resource)).result();
  const events = { waiter: await eventsOf(waiter.workflowId), permit, queue: await eventsOf(queueId(resource)) };
  console.log(JSON.stringify(events));
  // What comes in one moment shares a Workflow Task, or does not: so these vary a little.
  assert.ok(events.waiter <= 44 && events.permit <= 15 && events.queue <= 40, JSON.stringify(events));
  await assertSafe(temporal.client, resource, 1);
});
