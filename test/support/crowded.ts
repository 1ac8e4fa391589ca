import assert from 'node:assert/strict';
import { queueId } from '../../src/shared/permit-id';
import { startOptions } from './holders';
import { taskFailures } from './strangers';
import { eventually, queueView, type Temporal } from './temporal';
import type { SemaphoreOptions } from './workflows';
import * as workflows from './workflows';

/** How long it may take to fill the pool, and to line up. */
const PHASE_MS = 300_000;

/** Of a Workflow Task that timed out. */
const START_TO_CLOSE = 1;

/** Fills a pool slot by slot, parks so many waiters in its line, frees it, and looks at every run of the queue. */
export async function crowded(
  temporal: Temporal,
  slots: readonly string[],
  pool: SemaphoreOptions,
  waiters: number,
): Promise<void> {
  const resource = temporal.resource();
  const holders = await Promise.all(
    portions(slots, 50).map((names) =>
      temporal.client.workflow.start(workflows.holdEach, {
        ...startOptions(temporal, 'holders'),
        args: [{ resource, semaphore: { slots: names, lease: '1 hour' } }],
      }),
    ),
  );
  const held = `WorkflowId STARTS_WITH "permit:${resource}:" AND ExecutionStatus = "Running"`;
  await eventually(
    async () => assert.equal((await temporal.client.workflow.count(held)).count, slots.length),
    PHASE_MS,
  );
  const parkingMs = Date.now();
  const crowds = await Promise.all(
    portions(Array.from({ length: waiters }), 100).map(({ length }) =>
      temporal.client.workflow.start(workflows.crowd, {
        ...startOptions(temporal, 'crowd'),
        args: [{ resource, semaphore: { ...pool, lease: '1 hour' } }, length],
      }),
    ),
  );
  await eventually(async () => {
    assert.equal((await queueView(temporal.client, resource))?.tickets.length, waiters);
  }, PHASE_MS);
  const parkedMs = Date.now() - parkingMs;
  const servingMs = Date.now();
  await Promise.all(holders.map((holder) => holder.signal(workflows.finish)));
  await Promise.all([...holders, ...crowds].map((one) => one.result()));
  const servedMs = Date.now() - servingMs;

  const { overslept, ...tasks } = await readTasks(temporal, resource);
  console.log(JSON.stringify({ slots: slots.length, waiters, parkedMs, servedMs, overslept, ...tasks }));
}

function portions<T>(all: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size));
}

interface Tasks {
  runs: number;
  events: number;
  /** The longest from its start to its end, whatever that was, in milliseconds. */
  longestMs: number;
  /** Those that waited so long for the worker which had the run in its cache that the server gave them to any worker. */
  overslept: number;
}

/** Of all runs of the queue. Fails if a task failed, or ran into its limit. */
async function readTasks(temporal: Temporal, resource: string): Promise<Tasks> {
  const tasks: Tasks = { runs: 0, events: 0, longestMs: 0, overslept: 0 };
  const query = `WorkflowId = "${queueId(resource)}"`;
  for await (const { workflowId, runId } of temporal.client.workflow.list({ query })) {
    tasks.runs++;
    assert.deepEqual(await taskFailures(temporal.client, workflowId, runId), []);
    const { events } = await temporal.client.workflow.getHandle(workflowId, runId).fetchHistory();
    let startedMs = 0;
    for (const { eventTime, ...event } of events ?? []) {
      const atMs = Number(eventTime?.seconds) * 1_000 + Number(eventTime?.nanos) / 1e6;
      const timeout = event.workflowTaskTimedOutEventAttributes?.timeoutType;
      assert.notEqual(timeout, START_TO_CLOSE, 'a Workflow Task of the queue was not done in time');
      if (timeout) tasks.overslept++;
      if (event.workflowTaskStartedEventAttributes) startedMs = atMs;
      if (event.workflowTaskCompletedEventAttributes || event.workflowTaskFailedEventAttributes) {
        tasks.longestMs = Math.max(tasks.longestMs, Math.round(atMs - startedMs));
      }
      tasks.events++;
    }
  }
  return tasks;
}
