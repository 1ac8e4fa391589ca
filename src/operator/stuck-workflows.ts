import { type Client, isGrpcServiceError, type WorkflowExecutionInfo } from '@temporalio/client';
import { lenientReader } from '../client/server/lenient-reader';
import { mapConcurrently } from '../client/server/map-concurrently';
import { isPaused } from '../shared/open';
import { OUR_WORKFLOWS } from '../shared/protocol';
import { addTo } from './add-to';
import type { Inspection } from './inspection';

/** How many running Workflows of each type to look at. They are the newest, which today's workers run. */
const LOOKED_AT = 20;

/** gRPC's codes INVALID_ARGUMENT and NOT_FOUND: a client may have written any text as the holder. */
const NO_SUCH_RUN: readonly number[] = [3, 5];

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
  return (await Promise.all(OUR_WORKFLOWS.map(async (type) => await stuckOfType(client, type)))).flat();
}

async function stuckOfType(client: Client, type: string): Promise<StuckWorkflows[]> {
  const runs: WorkflowExecutionInfo[] = [];
  const query = `WorkflowType = '${type}' AND ExecutionStatus = 'Running'`;
  for await (const run of lenientReader(client).list({ query, pageSize: LOOKED_AT })) {
    if (runs.push(run) === LOOKED_AT) break;
  }
  const standstills = await Promise.all(runs.map(async (run) => await standstillOf(client, run)));
  // One entry for each reason: a worker that lacks a type fails all Workflows of that type.
  const byReason = new Map<string, WorkflowExecutionInfo[]>();
  for (const [index, standstill] of standstills.entries()) {
    const run = runs[index];
    if (typeof standstill === 'object' && run) addTo(byReason, standstill.fails, run);
  }
  return [...byReason].map(([reason, stuck]) => ({ type, reason, runs: stuck }));
}

/** Why a Workflow does not go on: its Workflow Task fails each time (`fails` says why), or it was paused on the server. */
export type Standstill = { fails: string } | 'paused';

/** A Workflow that holds a permit or waits for one, and does not go on: it neither renews nor releases. */
export interface StuckCaller {
  workflowId: string;
  resource: string;
  /** The slot that it holds; absent where it waits. */
  slot?: string;
  standstill: Standstill;
}

/** How many callers to look at: those that have held or waited longest. Any client may start thousands. */
const CALLERS_LOOKED_AT = 100;

/** The Workflows among the holders and waiters of these resources that can't go on, but for waiters of which that is known already. */
export async function stuckCallers(
  client: Client,
  resources: readonly Pick<Inspection, 'resource' | 'slots' | 'waiters'>[],
): Promise<StuckCaller[]> {
  const byRun = new Map<string, ReturnType<typeof callersOf>[number]>();
  for (const caller of resources.flatMap(callersOf)) if (!byRun.has(caller.runId)) byRun.set(caller.runId, caller);
  const callers = [...byRun.values()].sort((a, b) => a.since.getTime() - b.since.getTime()).slice(0, CALLERS_LOOKED_AT);
  const standstills = await mapConcurrently(callers, async (caller) => await standstillOf(client, caller));
  return callers.flatMap(({ workflowId, resource, slot }, index) => {
    const standstill = standstills[index];
    return standstill === undefined ? [] : [{ workflowId, resource, slot, standstill }];
  });
}

function callersOf({ resource, slots, waiters }: Pick<Inspection, 'resource' | 'slots' | 'waiters'>) {
  const holders = slots.flatMap(({ slot, state, permit }) => {
    const { workflowId, runId } = permit?.holder ?? {};
    return state === 'held' && permit && workflowId && runId
      ? [{ resource, slot, workflowId, runId, since: permit.since }]
      : [];
  });
  const waiting = waiters
    .filter(({ identity, paused }) => identity === undefined && !paused)
    .map(({ workflowId, runId, since }) => ({ resource, slot: undefined, workflowId, runId, since }));
  return [...holders, ...waiting];
}

/**
 * Why the Workflow does not go on; `undefined` when it does, or there is no such run.
 * @param run without a run ID, the latest run of the Workflow
 */
export async function standstillOf(
  client: Client,
  { workflowId, runId }: { workflowId: string; runId?: string },
): Promise<Standstill | undefined> {
  const execution = { workflowId, runId };
  const { namespace } = client.options;
  try {
    const described = await client.workflowService.describeWorkflowExecution({ namespace, execution });
    const { pendingWorkflowTask, workflowExecutionInfo } = described;
    if (isPaused({ status: { code: workflowExecutionInfo?.status ?? 0, name: '' } })) return 'paused';
    if (!pendingWorkflowTask || Number(pendingWorkflowTask.attempt) < 2) return undefined;
    const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
      namespace,
      execution,
      maximumPageSize: EVENTS_BACK,
    });
    const failed = history?.events?.find(({ workflowTaskFailedEventAttributes }) => workflowTaskFailedEventAttributes);
    const fails = failed?.workflowTaskFailedEventAttributes?.failure?.message;
    return fails ? { fails } : undefined;
  } catch (error) {
    if (isGrpcServiceError(error) && NO_SUCH_RUN.includes(error.code)) return undefined;
    throw error;
  }
}
