import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { queueId } from '../../../src/shared/permit-id';
import { ENQUEUE } from '../../../src/shared/protocol';
import { startHolder, startHolding } from '../../support/holders';
import { endQueue, eventually, queueView, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

/** How many one run takes. On other servers it is 10,000, which a flood reaches while it keeps the queue from continuing as new. */
const SIGNALS = 20;

/** A cause in the server's API. */
const SIGNAL_COUNT_LIMIT_EXCEEDED = 3;

const temporal = useTemporal({ dynamicConfig: [`history.maximumSignalsPerExecution=${SIGNALS}`] });

for (const fair of [false, true]) {
  const order = fair ? ', in strict order too' : '';
  test(`a ticket that a flooded queue can't take is sent again after a second${order}`, async (t) => {
    const resource = temporal.resource();
    const semaphore = { capacity: 1, fair };
    const { handle: holder } = await startHolding(temporal, { resource, semaphore });
    const first = await startHolder(temporal, { resource, semaphore });
    await untilWaiting(temporal.client, resource, 1);
    const queue = temporal.client.workflow.getHandle(queueId(resource));
    const ticket = { id: randomUUID(), waiter: { workflowId: first.workflowId }, slots: 1, sinceMs: Date.now() };
    await assert.rejects(async () => {
      for (let sent = 0; sent <= SIGNALS; sent++) await queue.signal(ENQUEUE, ticket);
    }, isOverLimit);

    const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
    await eventually(async () => assert.ok(await wasRefused(waiter)));
    const waiters = async () =>
      (await queueView(temporal.client, resource))?.tickets.map(({ waiter: { workflowId } }) => workflowId) ?? [];
    assert.ok(!(await waiters()).includes(waiter.workflowId));

    const fromMs = Date.now();
    await endQueue(temporal.client, resource); // its next run takes signals again
    await eventually(async () => assert.deepEqual(await waiters(), [waiter.workflowId]));
    t.diagnostic(`in line ${Date.now() - fromMs} ms after the queue could take it`);
    assert.ok(Date.now() - fromMs < 15_000);
    await first.terminate();
    await holder.signal(workflows.finish);
    await waiter.result();
  });
}

const isOverLimit = ({ cause }: Error) => /exceeded workflow execution limit/.test(String(cause));

async function wasRefused(handle: Pick<WorkflowHandle, 'fetchHistory'>): Promise<boolean> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).some(({ signalExternalWorkflowExecutionFailedEventAttributes: failed }) => {
    return failed?.cause === SIGNAL_COUNT_LIMIT_EXCEEDED;
  });
}
