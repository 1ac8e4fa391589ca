import assert from 'node:assert/strict';
import { test } from 'node:test';
import { queueId } from '../src/shared/permit-id';
import { startOptions } from './support/holders';
import { taskFailures } from './support/strangers';
import { eventually, queueView, useTemporal } from './support/temporal';
import type { SemaphoreOptions } from './support/workflows';
import * as workflows from './support/workflows';

const temporal = useTemporal();

/** The longest that one Workflow Task of a queue may take. The SDK ends it after 5 s, and the server after 10. */
const MOST_TASK_MS = 2_000;

/** Fills a pool, parks so many waiters in its line, frees it, and looks at every run of the queue. */
async function crowded(semaphore: SemaphoreOptions, slots: number, waiters: number): Promise<void> {
  const resource = temporal.resource();
  const start = (size: number, holds: boolean) =>
    temporal.client.workflow.start(workflows.crowd, {
      ...startOptions(temporal, 'crowd'),
      args: [{ resource, semaphore }, size, holds],
    });
  const many = (count: number, each: number, holds: boolean) =>
    Promise.all(Array.from({ length: Math.ceil(count / each) }, () => start(each, holds)));

  const holders = await many(slots, 50, true);
  const held = `WorkflowId STARTS_WITH "permit:${resource}:" AND ExecutionStatus = "Running"`;
  await eventually(async () => assert.equal((await temporal.client.workflow.count(held)).count, slots), 300_000);
  const parked = await many(waiters, Math.min(100, waiters), false);
  await eventually(async () => {
    assert.equal((await queueView(temporal.client, resource))?.tickets.length, waiters);
  }, 300_000);
  const startedMs = Date.now();
  await Promise.all(holders.map((holder) => holder.signal(workflows.finish)));
  await Promise.all([...holders, ...parked].map((one) => one.result()));
  const servedMs = Date.now() - startedMs;

  const longest = await eventually(async () => await longestTask(resource));
  console.log(
    JSON.stringify({ slots, named: 'slots' in semaphore, waiters, servedMs, eachMs: servedMs / waiters, ...longest }),
  );
  assert.ok(longest.taskMs < MOST_TASK_MS, `a Workflow Task of the queue took ${longest.taskMs} ms`);
}

/** Over all runs of the queue. Fails if a task did. */
async function longestTask(resource: string): Promise<{ taskMs: number; runs: number; events: number }> {
  let [taskMs, runs, events] = [0, 0, 0];
  const query = `WorkflowId = "${queueId(resource)}"`;
  for await (const { workflowId, runId } of temporal.client.workflow.list({ query })) {
    runs++;
    assert.deepEqual(await taskFailures(temporal.client, workflowId, runId), []);
    const history = await temporal.client.workflow.getHandle(workflowId, runId).fetchHistory();
    let startedMs = 0;
    for (const { eventTime, ...event } of history.events ?? []) {
      const atMs = Number(eventTime?.seconds) * 1_000 + Number(eventTime?.nanos) / 1e6;
      if (event.workflowTaskStartedEventAttributes) startedMs = atMs;
      if (event.workflowTaskCompletedEventAttributes) taskMs = Math.max(taskMs, atMs - startedMs);
      assert.ok(!event.workflowTaskTimedOutEventAttributes, 'a Workflow Task of the queue timed out');
      events++;
    }
  }
  return { taskMs, runs, events };
}

test('1,000 slots and 2,000 waiters: no task of the queue fails or takes long, and all are served', async () => {
  await crowded({ capacity: 1_000, lease: '1 hour' }, 1_000, 2_000);
});

test('tickets of 1,000 names each, as many as a queue takes', async () => {
  const slots = Array.from({ length: 1_000 }, (_, n) => `gpu-${n}`);
  await crowded({ slots, lease: '1 hour' }, 1_000, 80);
});
