import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Operator } from '../../../src/operator';
import { startHolding, startOptions } from '../../support/holders';
import { assertSafe, eventually, queueView, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

/** Nobody may be asked sooner, and a waiter checks on the queue for the first time by then. */
const SILENT_MS = 30_000;

test('Workflows that were terminated or have timed out as they waited do not count, neither for a bound nor to operators', async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 0 };
  const wait = (name: string, acquire = {}, workflowExecutionTimeout?: '20s') =>
    client.workflow.start(workflows.holder, {
      ...startOptions(temporal, name),
      workflowExecutionTimeout,
      args: [{ ...input, acquire }],
    });
  const first = await startHolding(temporal, { resource, semaphore: input.semaphore });
  const living = await wait('living');
  const dead = [await wait('terminated'), await wait('terminated'), await wait('timed-out', {}, '20s')];
  await untilWaiting(client, resource, 4);
  for (const waiter of dead.slice(0, 2)) await waiter.terminate();
  await Promise.allSettled(dead.map((waiter) => waiter.result()));
  await untilWaiting(client, resource, 4); // nobody has told the queue

  await delay(SILENT_MS);
  const { waiting, waiters } = await new Operator(client, resource, { capacity: 1, taskQueue }).inspect();
  assert.deepEqual([waiting, waiters.map(({ workflowId }) => workflowId)], [1, [living.workflowId]]);

  const bounded = await wait('bounded', { maxWaiting: 2 });
  const refused = await wait('refused', { maxWaiting: 1 });
  await assert.rejects(refused.result(), ({ cause }: Error) => String(cause).includes('maxWaiting'));
  const { tickets } = await untilWaiting(client, resource, 2);
  assert.deepEqual(
    tickets.map(({ waiter }) => waiter.workflowId),
    [living.workflowId, bounded.workflowId],
  );
  await first.handle.signal(workflows.finish);
  await Promise.all([living.result(), bounded.result()]);
  await eventually(async () => assert.equal(await queueView(client, resource), undefined));
  await assertSafe(client, resource, 1);
});
