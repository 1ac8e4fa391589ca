import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { PACED_PERMIT_WORKFLOW } from '../../shared/pace-protocol';
import { PERMIT_WORKFLOW, QUEUE_WORKFLOW, WAITER_WORKFLOW } from '../../shared/protocol';
import { lenientReader } from './lenient-reader';

/** How many running Workflows of each type to look at: the newest, which today's workers run. */
const LOOKED_AT = 20;

/** How many events back to look for the reason: signals may have come since. */
const EVENTS_BACK = 100;

/** Workflows of one type whose Workflow Tasks fail for one reason. */
export interface StuckWorkflows {
  type: string;
  reason: string;
  runs: WorkflowExecutionInfo[];
}

/**
 * Running permits, queues and waiters that can't go on: a worker gets their Workflow Task and fails it each time. An inspection
 * shows such a Workflow only as silent.
 */
export async function stuckWorkflows(client: Client): Promise<StuckWorkflows[]> {
  const types = [PERMIT_WORKFLOW, PACED_PERMIT_WORKFLOW, QUEUE_WORKFLOW, WAITER_WORKFLOW];
  return (await Promise.all(types.map(async (type) => await stuckOfType(client, type)))).flat();
}

async function stuckOfType(client: Client, type: string): Promise<StuckWorkflows[]> {
  const runs: WorkflowExecutionInfo[] = [];
  const query = `WorkflowType = '${type}' AND ExecutionStatus = 'Running'`;
  for await (const run of lenientReader(client).list({ query, pageSize: LOOKED_AT })) {
    if (runs.push(run) === LOOKED_AT) break;
  }
  const reasons = await Promise.all(runs.map(async (run) => await failureOf(client, run)));
  // One entry for each reason: a worker that lacks a type fails all Workflows of that type.
  const byReason = new Map<string, WorkflowExecutionInfo[]>();
  for (const [index, reason] of reasons.entries()) {
    const run = runs[index];
    if (reason !== undefined && run) byReason.set(reason, [...(byReason.get(reason) ?? []), run]);
  }
  return [...byReason].map(([reason, stuck]) => ({ type, reason, runs: stuck }));
}

/** Why the present Workflow Task fails; `undefined` when it does not, or the Workflow has ended meanwhile. */
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
