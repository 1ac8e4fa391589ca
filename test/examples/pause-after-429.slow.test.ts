import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from '@temporalio/worker';
import type { RecipeActivities } from '../../examples/recipes/activities';
import { askFor } from '../../examples/recipes/workflows';
import { eventsOfRuns, type HistoryEvent, timeMs } from '../../scripts/support/history-events';
import { bundleExample } from '../../scripts/support/workflow-bundles';
import { keyResource } from '../../src/shared/key-names';
import { permitId, queueId } from '../../src/shared/permit-id';
import { ENQUEUE, OVERRIDE, TURN } from '../../src/shared/protocol';
import { PERMIT_WORKER_DEFAULTS } from '../../src/worker/permit-worker';
import { startOptions } from '../support/holders';
import { assertNoPermitLeft, until, useTemporal } from '../support/temporal';

// What the recipe of a vendor's API promises of a pause, with many tenants. It names its resource and its task queue.

const temporal = useTemporal();
const RESOURCE = 'vendor-api';
const TASK_QUEUE = 'permits';
const TENANTS = Array.from({ length: 15 }, (_, index) => `tenant-${index}`);
const CALLERS = TENANTS.flatMap((tenant) => Array.from({ length: 3 }, () => tenant));
/** After so many answers the vendor says 429, once. */
const ANSWERED_BEFORE = 15;
const RETRY_AFTER_MS = 5_000;

let answered = 0;
const activities: Pick<RecipeActivities, 'ask'> = {
  async ask(tenant) {
    await delay(300);
    return ++answered === ANSWERED_BEFORE
      ? { status: 429 as const, retryAfterMs: RETRY_AFTER_MS }
      : { status: 200 as const, text: tenant };
  },
};

before(async () => {
  await until(() => temporal.bundle); // the hooks of a file do not wait for each other
});

async function historyOf(workflowId: string): Promise<HistoryEvent[]> {
  return (await temporal.client.workflow.getHandle(workflowId).fetchHistory()).events ?? [];
}

function payloadOf<T>(data: Uint8Array | null | undefined): T {
  return JSON.parse(Buffer.from(data ?? []).toString()) as T;
}

/** The claims of the whole that a caller made, with what it knew: a turn, or that no queue ran. */
function claimsOf(events: readonly HistoryEvent[]) {
  const initiated = (id: unknown) => events.find(({ eventId }) => String(eventId) === String(id));
  return events.flatMap(({ childWorkflowExecutionStartedEventAttributes: child }) => {
    const claim = initiated(child?.initiatedEventId);
    const start = claim?.startChildWorkflowExecutionInitiatedEventAttributes;
    if (!claim || !start?.workflowId?.startsWith(permitId({ resource: RESOURCE, slot: '' }))) return [];
    const { watchedBy } = payloadOf<{ watchedBy?: string }>(start.input?.payloads?.[0]?.data);
    const sawNoQueue = [...events].reverse().find((event) => {
      const failed = event.signalExternalWorkflowExecutionFailedEventAttributes;
      const sent = initiated(failed?.initiatedEventId)?.signalExternalWorkflowExecutionInitiatedEventAttributes;
      const isOfWhole = sent?.workflowExecution?.workflowId === queueId(RESOURCE) && sent.signalName === ENQUEUE;
      return isOfWhole && Number(event.eventId) < Number(claim.eventId);
    });
    return {
      atMs: timeMs(claim),
      isOnTurn: watchedBy !== undefined,
      sawNoQueueMs: sawNoQueue ? timeMs(sawNoQueue) : Infinity,
    };
  });
}

test('after a 429, a call begins only on a turn that came before the queue had the pause; then all tenants go on', async (t) => {
  const workflowBundle = await bundleExample({ workflowsPath: require.resolve('../support/recipes-workflows') });
  const connection = temporal.env.nativeConnection;
  const worker = await Worker.create({
    connection,
    workflowBundle,
    activities,
    taskQueue: TASK_QUEUE,
    ...PERMIT_WORKER_DEFAULTS,
  });
  const ids = await worker.runUntil(async () => {
    const handles = await Promise.all(
      CALLERS.map((tenant) =>
        temporal.client.workflow.start(askFor, {
          ...startOptions(temporal, tenant),
          taskQueue: TASK_QUEUE,
          args: [tenant, 'how much?'],
        }),
      ),
    );
    await Promise.all(handles.map((handle) => handle.result()));
    for (const of of [RESOURCE, ...TENANTS.map((tenant) => keyResource(RESOURCE, tenant))])
      await assertNoPermitLeft(temporal.client, of);
    return handles.map(({ workflowId }) => workflowId);
  });

  const queue = await eventsOfRuns(temporal.client, queueId(RESOURCE));
  const orderAt = queue.findIndex((event) => event.workflowExecutionSignaledEventAttributes?.signalName === OVERRIDE);
  assert.ok(orderAt >= 0, 'the 429 pauses the resource');
  const readAt = queue.findIndex((event, at) => event.workflowTaskStartedEventAttributes && at > orderAt);
  assert.ok(readAt >= 0, 'the queue reads the order');
  const [pausedAtMs, readAtMs] = [timeMs(queue[orderAt]), timeMs(queue[readAt])];
  const endsAtMs = pausedAtMs + RETRY_AFTER_MS - 1_000; // the pause counts from the caller's Workflow Task, before the order
  const turns = queue.slice(readAt).flatMap((event) => {
    const sent = event.signalExternalWorkflowExecutionInitiatedEventAttributes;
    const turn = sent?.signalName === TURN && payloadOf<{ slot?: string }>(sent.input?.payloads?.[0]?.data);
    return turn && turn.slot !== undefined ? event : [];
  });
  const isPaused = (event: HistoryEvent) => timeMs(event) < endsAtMs;
  assert.deepEqual(turns.filter(isPaused), [], 'the queue gives no turn in the pause');

  const claims = (await Promise.all(ids.map(historyOf))).map(claimsOf);
  const begun = claims.flat().filter(({ atMs }) => atMs > pausedAtMs && atMs < endsAtMs);
  const unseen = begun.filter(({ isOnTurn, sawNoQueueMs }) => !isOnTurn && sawNoQueueMs > pausedAtMs);
  assert.deepEqual(unseen, [], 'nobody takes a slot past the line');
  const firsts = TENANTS.map((tenant) => {
    const own = claims.filter((_, index) => ids[index]?.startsWith(`${tenant}-`)).flat();
    return Math.min(...own.filter(({ atMs }) => atMs >= endsAtMs).map(({ atMs }) => atMs)) - pausedAtMs;
  });
  const later = firsts.filter(Number.isFinite).sort((a, b) => a - b);
  t.diagnostic(
    `${begun.length} calls began in the pause, which the queue had after ${Math.round(readAtMs - pausedAtMs)} ms; ` +
      `the first call of each tenant after it: ${later.map(Math.round).join(', ')} ms`,
  );
});
