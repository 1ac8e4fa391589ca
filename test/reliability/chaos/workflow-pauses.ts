import { setTimeout as delay } from 'node:timers/promises';
import { isGrpcServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { resourceOfQueue } from '@/shared/permit-id';
import { PERMIT_WORKFLOWS, QUEUE_WORKFLOW, WAITER_WORKFLOW } from '@/shared/protocol';
import { isQuiet, pauseWorkflow, unpauseWorkflow } from '../../../scripts/support/workflow-pause';
import type { Fault } from './faults';
import { isUnreadable } from './histories';
import { HOLDER_PREFIX } from './holder-prefix';
import { ordered } from './operators';
import { Luck } from './random';
import type { World } from './world';

interface Run {
  workflowId: string;
  runId: string;
}

export const NO_PAUSE =
  'Left out: paused Workflows, which need Workflow Pause: server 1.32 or later with frontend.WorkflowPauseEnabled=true';

/** So long a server that is down may keep a Workflow paused. */
const UNPAUSED_WITHIN_MS = 60_000;

/** How often a Workflow is looked at before another one is paused in its place. */
const LOOKS = 10;

/** gRPC's codes NOT_FOUND and FAILED_PRECONDITION: the Workflow has ended, or is not what it should be. */
const DEFINITE: readonly number[] = [5, 9];

/**
 * The server's own pause of one running Workflow: a permit, also one with which the queue keeps a slot out of use; a queue; a Workflow that holds
 * or waits; one that waits for a client. Only servers that `canPauseWorkflows` have it.
 */
export const PAUSE_WORKFLOW: Fault = {
  kind: 'pause-workflow',
  weight: 4,
  lastsMs: [1_000, 12_000], // the leases are 4, 5 and 6 seconds
  async inject(world, { luck }) {
    const run = await someRun(world, luck);
    if (!run) return undefined;
    const { workflowId, runId } = run;
    await pauseWorkflow(world.client, workflowId, runId).catch((error: unknown) => {
      if (isDefinite(error)) throw error; // otherwise it may be paused
    });
    return { target: workflowId, heal: async () => await untilItGoesOn(world, run) };
  },
};

/** A Workflow that can be paused now. */
async function someRun({ client, options }: World, [which, , seed]: readonly number[]): Promise<Run | undefined> {
  const own = `TaskQueue = '${options.taskQueue}' AND WorkflowType`;
  const kinds = [
    PERMIT_WORKFLOWS.map((type) => `${own} = '${type}'`).join(' OR '),
    `${own} = '${QUEUE_WORKFLOW}'`,
    `WorkflowId STARTS_WITH '${HOLDER_PREFIX}' AND TaskQueue = '${options.taskQueue}-application'`,
    `${own} = '${WAITER_WORKFLOW}'`,
  ];
  const query = `(${kinds[Math.floor((which ?? 0) * kinds.length)]}) AND ExecutionStatus = 'Running'`;
  const found: Run[] = [];
  for await (const { workflowId, runId } of client.workflow.list({ query })) found.push({ workflowId, runId });
  for (const run of new Luck(`${options.seed}/${seed}`).shuffled(found)) {
    for (let look = 0; look < LOOKS; look++) {
      // It may have ended: visibility is late.
      const isNow = await isQuiet(client, run.workflowId, run.runId).catch(() => undefined);
      if (isNow) return run;
      if (isNow === undefined) break;
      await delay(10);
    }
  }
  return undefined;
}

/** Ends the pause, however long the server is down. */
async function untilItGoesOn(world: World, run: Run): Promise<void> {
  for (const untilMs = performance.now() + UNPAUSED_WITHIN_MS; ; await delay(250)) {
    try {
      return await goOn(world, run);
    } catch (error) {
      if (isDefinite(error)) return; // it has ended meanwhile
      if (performance.now() > untilMs) throw error;
    }
  }
}

/** The pause may have come at a bad moment: then an operator can only terminate the Workflow, as docs/troubleshooting.md says. */
async function goOn({ client, observer }: World, { workflowId, runId }: Run): Promise<void> {
  const handle = client.workflow.getHandle(workflowId, runId);
  const { events } = await handle.fetchHistory();
  if (!isUnreadable(events ?? [])) return await unpauseWorkflow(client, workflowId, runId);
  const isQueue = events?.[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name === QUEUE_WORKFLOW;
  const terminate = async () => {
    observer.faults.push({ kind: 'terminate-unreadable', target: workflowId, atMs: Date.now() });
    await handle.terminate('its history can’t be read');
  };
  if (!isQueue) return await terminate();
  await ordered(observer, { kind: 'terminate-queue', resource: resourceOfQueue(workflowId) }, terminate);
}

function isDefinite(error: unknown): boolean {
  return error instanceof WorkflowNotFoundError || (isGrpcServiceError(error) && DEFINITE.includes(error.code));
}
