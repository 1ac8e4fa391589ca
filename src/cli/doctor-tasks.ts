import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { lenientReader } from '../client/operator/lenient-reader';
import { PERMIT_WORKFLOW, QUEUE_WORKFLOW, WAITER_WORKFLOW } from '../shared/protocol';
import type { Finding } from './doctor-checks';
import { count } from './wording';

/** How many running Workflows of each type are looked at: the newest, which today's workers run. */
const LOOKED_AT = 20;

/** How far back in a history the reason is looked for: signals may have come since. */
const EVENTS_BACK = 100;

/** What the SDK's worker answers for a Workflow type that its bundle does not export. */
const NOT_EXPORTED = /no such function is exported by the workflow bundle/;

/**
 * Permits, queues and waiters that run and can't go on, since a worker gets their Workflow Task and fails it each time. In
 * the pool's own view such a Workflow is only silent.
 */
export async function failingTasks(client: Client): Promise<Finding[]> {
  const found = await Promise.all(
    [PERMIT_WORKFLOW, QUEUE_WORKFLOW, WAITER_WORKFLOW].map(async (type) => await failing(client, type)),
  );
  return found.flat();
}

async function failing(client: Client, type: string): Promise<Finding[]> {
  const runs: WorkflowExecutionInfo[] = [];
  const query = `WorkflowType = '${type}' AND ExecutionStatus = 'Running'`;
  for await (const run of lenientReader(client).list({ query, pageSize: LOOKED_AT })) {
    if (runs.push(run) === LOOKED_AT) break;
  }
  const reasons = await Promise.all(runs.map(async (run) => await failureOf(client, run)));
  // One line for each reason: a worker that lacks a type fails all of that type.
  const byReason = new Map<string, WorkflowExecutionInfo[]>();
  for (const [index, reason] of reasons.entries()) {
    const run = runs[index];
    if (reason !== undefined && run) byReason.set(reason, [...(byReason.get(reason) ?? []), run]);
  }
  return [...byReason].map(([reason, stuck]) => finding(type, reason, stuck));
}

function finding(type: string, reason: string, stuck: WorkflowExecutionInfo[]): Finding {
  const queues = [...new Set(stuck.map(({ taskQueue }) => `"${taskQueue}"`))].join(', ');
  if (NOT_EXPORTED.test(reason)) {
    return {
      is: 'bad',
      what: `a worker of task queue ${queues} has no ${type}: ${count(stuck.length, 'Workflow')} can't go on`,
      advice: "Its Workflows file needs: export * from 'temporal-semaphore/workflows';",
    };
  }
  return {
    is: 'bad',
    what: `${stuck[0]?.workflowId} on task queue ${queues} can't go on, its Workflow Task fails: ${reason}`,
    advice: "The worker's log says more.",
  };
}

/** Why the present Workflow Task has failed; `undefined` when it has not, or when the Workflow has ended meanwhile. */
async function failureOf(client: Client, { workflowId, runId }: WorkflowExecutionInfo): Promise<string | undefined> {
  const execution = { workflowId, runId };
  const { namespace } = client.options;
  const { pendingWorkflowTask } = await client.workflowService.describeWorkflowExecution({ namespace, execution });
  if (!pendingWorkflowTask || Number(pendingWorkflowTask.attempt) < 2) return undefined;
  const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
    namespace,
    execution,
    maximumPageSize: EVENTS_BACK,
  });
  const failed = history?.events?.find(({ workflowTaskFailedEventAttributes }) => workflowTaskFailedEventAttributes);
  return failed?.workflowTaskFailedEventAttributes?.failure?.message ?? undefined;
}
