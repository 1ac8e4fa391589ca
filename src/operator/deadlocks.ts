import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { PACED_PERMIT_WORKFLOW, PERMIT_WORKFLOW, QUEUE_WORKFLOW, WAITER_WORKFLOW } from '../shared/protocol';
import { addTo } from './add-to';
import type { Inspection, ResourceSlot } from './inspection';
import { lenientReader } from './reader';

/** One Workflow of a cycle of Workflows that wait for each other. */
export interface DeadlockStep {
  /** The Workflow that waits … */
  workflowId: string;
  runId: string;
  /** … for a permit of this resource … */
  waitsFor: string;
  /** … and the next Workflow of the cycle, which holds such a permit. */
  heldBy: string;
}

type Seen = Pick<Inspection, 'resource' | 'slots' | 'waiters'>;

interface Wait {
  resource: string;
  /** The Workflows that hold its permits. `undefined` stands for a client, and for a slot that is or comes free: the wait can end then. */
  holders: (string | undefined)[];
}

/**
 * Finds cycles of Workflows: each Workflow waits for a permit that only Workflows of its cycle hold. Such a cycle comes from permits
 * that callers nest by hand in different orders, or from a caller that waits for a permit of its own. A Workflow is stuck if all
 * holders of the resource it waits for are stuck, and it waits in no other line in which it could be served.
 *
 * It does not find a cycle through clients, since one process holds and waits for many callers. It may be wrong about a Workflow
 * that waits in one branch, and releases in another branch.
 */
export function findDeadlocks(resources: readonly Seen[]): DeadlockStep[][] {
  const waits = waitsByWorkflow(resources);
  for (let size = -1; size !== waits.size; ) {
    size = waits.size;
    for (const [who, lines] of waits) {
      const isServed = ({ holders }: Wait) => holders.some((holder) => holder === undefined || !waits.has(holder));
      if (lines.some(isServed)) waits.delete(who);
    }
  }
  const cycles: DeadlockStep[][] = [];
  const seen = new Set<string>();
  for (const start of waits.keys()) {
    const path: string[] = [];
    for (let who = start; !seen.has(who); who = next(waits, who)) {
      seen.add(who);
      path.push(who);
    }
    const last = path.at(-1);
    const from = last === undefined ? -1 : path.indexOf(next(waits, last));
    if (from >= 0) cycles.push(path.slice(from).map((who) => stepOf(waits, who)));
  }
  return cycles;
}

/** Of the permits that keep a cycle shut, the one that was taken last: its holder has the least to do again. */
export function lastTaken(steps: readonly DeadlockStep[], resources: readonly Seen[]): ResourceSlot | undefined {
  const shut = steps.flatMap(({ waitsFor, heldBy }) => {
    const slots = resources.find(({ resource }) => resource === waitsFor)?.slots ?? [];
    return slots.flatMap(({ slot, state, permit }) =>
      permit?.holder.workflowId === heldBy ? [{ resource: waitsFor, slot, state, permit }] : [],
    );
  });
  return shut.sort((a, b) => b.permit.since.getTime() - a.permit.since.getTime())[0];
}

function waitsByWorkflow(resources: readonly Seen[]): Map<string, Wait[]> {
  const waits = new Map<string, Wait[]>();
  for (const { resource, slots, waiters } of resources) {
    const holders = slots
      .filter(({ state }) => state !== 'drained')
      .map(({ state, permit }) => {
        return state === 'held' && permit ? nameOf(permit.holder.workflowId, permit.holder.runId) : undefined;
      });
    if (holders.length === 0) continue; // nobody holds a permit: the waiters wait for an operator
    for (const { workflowId, runId, identity, turn } of waiters) {
      const who = nameOf(workflowId, runId);
      if (identity !== undefined || who === undefined) continue;
      const line = { resource, holders: turn === undefined ? holders : [undefined] };
      addTo(waits, who, line);
    }
  }
  return waits;
}

/** The next stuck Workflow: a holder of the resource that this Workflow waits for. */
function next(waits: ReadonlyMap<string, Wait[]>, who: string): string {
  return waits.get(who)?.[0]?.holders[0] ?? '';
}

function stepOf(waits: ReadonlyMap<string, Wait[]>, who: string): DeadlockStep {
  const [workflowId = '', runId = ''] = who.split(SEPARATOR);
  const [heldBy = ''] = next(waits, who).split(SEPARATOR);
  return { workflowId, runId, waitsFor: waits.get(who)?.[0]?.resource ?? '', heldBy };
}

const SEPARATOR = '\0';

function nameOf(workflowId: string | undefined, runId: string | undefined): string | undefined {
  return workflowId === undefined || runId === undefined ? undefined : workflowId + SEPARATOR + runId;
}

/** How many running Workflows of each type to look at. They are the newest, which today's workers run. */
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
    if (reason !== undefined && run) addTo(byReason, reason, run);
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
