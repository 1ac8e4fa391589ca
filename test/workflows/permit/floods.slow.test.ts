import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { isGrpcServiceError } from '@temporalio/client';
import { SemaphoreClient } from '../../../src/client';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { ADOPT, ENQUEUE, PERMIT_STATUS, PREEMPT, RENEW, WATCH } from '../../../src/shared/protocol';
import { startHolder, startHolding } from '../../support/holders';
import { soundTicket } from '../../support/malformed';
import { send, taskFailures } from '../../support/strangers';
import { eventually, queueView, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal();

/** As fast as one client can, more than the 10,000 that the server takes for one run. */
const COUNT = 10_500;

const BOUND = { timeout: 300_000 };

/** @returns how many the server took */
async function flood(workflowId: string, message: (n: number) => [signal: string, value: unknown]): Promise<number> {
  let next = 0;
  let taken = 0;
  const lane = async () => {
    while (next < COUNT) {
      const [signal, value] = message(next++);
      try {
        await send(temporal.client, workflowId, signal, value);
        taken++;
      } catch (error) {
        if (!isGrpcServiceError(error)) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: 30 }, lane));
  return taken;
}

/** Whatever came while no worker was up comes in one Workflow Task. */
test('a permit outlives a flood of every signal, and its holder releases it', BOUND, async () => {
  const resource = temporal.resource();
  const { client } = temporal;
  const taskQueue = `${temporal.taskQueue}-${resource}`;
  const semaphore = new SemaphoreClient(client, resource, { capacity: 1, taskQueue, lease: '5s' });
  const permit = await semaphore.acquire({ priority: { priorityKey: 3 }, preemptible: { grace: '5s' } });
  const workflowId = permitId({ resource, slot: '0' });
  const taken = await flood(workflowId, (n) => {
    const messages: [string, unknown][] = [
      [RENEW, {}],
      [RENEW, { leaseMs: 'x' }],
      [WATCH, { queueId: queueId(resource), preempt: true }],
      [PREEMPT, { priorityKey: 9 }],
      [ADOPT, { holder: { identity: `adopter ${n}` } }],
      ['nonsense', {}],
    ];
    return messages[n % messages.length] ?? assert.fail();
  });
  assert.ok(taken < COUNT, 'the server refuses more than it takes in one run');
  assert.equal(permit.signal.aborted, false);
  await permit.renew();
  await temporal.worker({ taskQueue });
  const handle = client.workflow.getHandle(workflowId, permit.runId);
  await eventually(async () => await handle.query(PERMIT_STATUS));
  await delay(6_000); // longer than its lease
  assert.equal((await handle.describe()).status.name, 'RUNNING', 'nobody can renew it, so its lease does not end it');
  await permit.release();
  assert.equal(await handle.result(), 'released');
  assert.deepEqual(await taskFailures(client, workflowId, permit.runId), []);
});

test(
  'a queue outlives a flood of tickets from one client: its line is readable, and who waits is served',
  BOUND,
  async (t) => {
    const resource = temporal.resource();
    const { client } = temporal;
    const semaphore = { capacity: 1, lease: '10 minutes', recheckAfter: '5 minutes' } as const;
    const holder = await startHolding(temporal, { resource, semaphore });
    const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
    await untilWaiting(client, resource, 1);
    const queue = client.workflow.getHandle(queueId(resource));
    const { runId } = await queue.describe();
    const fromMs = Date.now();
    const taken = await flood(queueId(resource), () => [ENQUEUE, soundTicket({ sinceMs: Date.now() })]);
    t.diagnostic(`${taken} taken in ${Date.now() - fromMs} ms`);
    const floodedMs = Date.now();
    const view = await eventually(async () => (await queueView(client, resource)) ?? assert.fail());
    t.diagnostic(`readable after ${Date.now() - floodedMs} ms: ${view.tickets.length} tickets`);
    await holder.handle.signal(workflows.finish);
    await waiter.result();
    t.diagnostic(`served after ${Date.now() - floodedMs} ms`);
    assert.deepEqual(await taskFailures(client, queueId(resource), runId), []);
    const { events = [] } = await client.workflow.getHandle(queueId(resource), runId).fetchHistory();
    const failed = events?.filter(
      (event) => event.workflowTaskFailedEventAttributes ?? event.workflowTaskTimedOutEventAttributes,
    );
    t.diagnostic(`${events?.length} events, ${failed?.length} failed or timed-out tasks`);
    await queue.terminate();
  },
);
