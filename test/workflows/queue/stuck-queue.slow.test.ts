import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { optionalTsToMs } from '@temporalio/common/lib/time';
import { type HistoryEvent, timeMs } from '../../../scripts/support/history-events';
import { type Permit, SemaphoreClient } from '../../../src/client';
import { queueId } from '../../../src/shared/permit-id';
import { QUEUE_WORKFLOW, WAITER_WORKFLOW } from '../../../src/shared/protocol';
import { startHolder, untilAt } from '../../support/holders';
import { assertSafe, eventually, until, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

/** Milliseconds. The real one is 30 s. */
const RECHECK_AFTER = 300;

const CAPACITY = 4;

/** One asks, and two go through the slots. Only then does it back off. */
const SILENCES = 3;

/** Fills the resource, and puts a queue before it that runs and has no worker. */
async function behindStuckQueue(resource: string, fair: boolean) {
  const { client, taskQueue } = temporal;
  const semaphore = { capacity: CAPACITY, fair, recheckAfter: RECHECK_AFTER };
  const taken = new SemaphoreClient(client, resource, { ...semaphore, taskQueue, lease: '10 minutes' });
  const held: Permit[] = [];
  for (let slot = 0; slot < CAPACITY; slot++) held.push((await taken.tryAcquire()) ?? assert.fail());
  const queue = await client.workflow.start(QUEUE_WORKFLOW, {
    workflowId: queueId(resource),
    taskQueue: `nobody-${resource}`,
  });
  return {
    semaphore,
    freeOne: async () => await held.pop()?.release(),
    async end() {
      await queue.terminate();
      for (const permit of held) await permit.release();
    },
  };
}

test('a Workflow finds a slot of four that comes free behind a stuck queue', async () => {
  const resource = temporal.resource();
  const { semaphore, freeOne, end } = await behindStuckQueue(resource, false);
  const waiter = await startHolder(temporal, { resource, semaphore });
  await eventually(async () => {
    const { events = [] } = await waiter.fetchHistory();
    const silences = events?.filter((event) => event.timerFiredEventAttributes).length ?? 0;
    assert.ok(silences >= SILENCES, `${silences} silences`);
    const timers = (events ?? []).flatMap((event) => event.timerStartedEventAttributes ?? []).slice(0, SILENCES);
    const longest = Math.max(...timers.map((timer) => optionalTsToMs(timer.startToFireTimeout) ?? 0));
    // A queue that takes a second to take a ticket has 20 times as long, and a busy machine may be so slow.
    const slowestMs = slowestTicketMs(events ?? []);
    const mostMs = 1.25 * Math.max(RECHECK_AFTER, slowestMs < 900 ? 0 : 20 * slowestMs);
    assert.ok(longest <= mostMs, `it waits for up to ${longest} ms, and not ${mostMs}, between two looks`);
  });
  await freeOne();
  await untilAt(waiter, 'holding');
  await waiter.signal(workflows.finish);
  await waiter.result();
  await end();
  await assertSafe(temporal.client, resource, CAPACITY, []);
});

/** From the Workflow Task that sends a ticket to the one that hears that the queue has it, the longest. */
function slowestTicketMs(events: readonly HistoryEvent[]): number {
  const starts = events.filter((event) => event.workflowTaskStartedEventAttributes);
  const tookMs = events.flatMap((event) => {
    const sentId = event.externalWorkflowExecutionSignaledEventAttributes?.initiatedEventId;
    if (sentId == null) return [];
    const sent = starts.filter(({ eventId }) => Number(eventId) < Number(sentId)).at(-1);
    const heard = starts.find(({ eventId }) => Number(eventId) > Number(event.eventId));
    return heard ? [timeMs(heard) - timeMs(sent)] : [];
  });
  return Math.max(0, ...tookMs);
}

test('a client finds a slot of four that comes free behind a stuck queue, in a fair line', async () => {
  const resource = temporal.resource();
  const { semaphore, freeOne, end } = await behindStuckQueue(resource, true);
  let silences = 0; // a Workflow waits on its behalf until the queue is silent for too long, and then another one
  const start: WorkflowClientInterceptor['start'] = async (input, next) => {
    if (input.workflowType === WAITER_WORKFLOW) silences++;
    return await next(input);
  };
  const client = new Client({ connection: temporal.client.connection, interceptors: { workflow: [{ start }] } });
  const { taskQueue } = temporal;
  const acquiring = new SemaphoreClient(client, resource, { ...semaphore, taskQueue }).acquire({
    timeout: '1 minute',
  });
  await until(() => silences > 2); // each takes some seconds
  await freeOne();
  const permit = await acquiring;
  const fromMs = Date.now();
  await permit.release();
  await end();
  await assertSafe(temporal.client, resource, CAPACITY, [{ runId: permit.runId, fromMs, toMs: Date.now() }]);
});
