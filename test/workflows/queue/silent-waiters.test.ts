import assert from 'node:assert/strict';
import { test } from 'node:test';
import { queueId } from '../../../src/shared/permit-id';
import type { Ticket } from '../../../src/shared/protocol';
import { startHolding, startOptions } from '../../support/holders';
import { assertSafe, eventually, queueView, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

test('a Workflow with several tickets whose worker was away for its first turn has its other turns before those behind it', async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const fanQueue = `${taskQueue}-fan`;
  const first = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  // They let each turn pass. So nobody but the fan uses one, and a line is left behind the fan until each has had its turn.
  const sleeper = await client.workflow.start(workflows.sleeper, { ...startOptions(temporal), args: [1] });
  const waiter = { workflowId: sleeper.workflowId, runId: sleeper.firstExecutionRunId };
  const others = Array.from({ length: 400 }, (_, n): Ticket => {
    return { id: `other-${n}`, waiter, identity: `other-${n}`, slots: 1, sinceMs: Date.now() + 60_000 };
  });
  await client.workflow.start(workflows.waitQueueWorkflow, {
    workflowId: queueId(resource),
    taskQueue,
    args: [{ tickets: others }],
  });
  const worker = await temporal.worker({ taskQueue: fanQueue });
  const fan = await client.workflow.start(workflows.crowd, {
    ...startOptions(temporal, 'fan'),
    taskQueue: fanQueue,
    args: [{ resource, semaphore: { capacity: 1, fair: true, taskQueue } }, 4],
  });
  await untilWaiting(client, resource, 404);

  await worker.stop();
  await first.handle.signal(workflows.finish);
  await eventually(async () => {
    const { tickets } = (await queueView(client, resource)) ?? assert.fail();
    assert.equal(tickets.filter(({ waiter }) => waiter.workflowId === fan.workflowId).length, 3);
  });
  await temporal.worker({ taskQueue: fanQueue });
  await fan.result();
  const { tickets } = (await queueView(client, resource)) ?? { tickets: [] };
  assert.ok(tickets.length > 0, 'all others had their turns first');

  await sleeper.signal(workflows.finish);
  await assertSafe(client, resource, 1);
});
