import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { ReplayError, Worker } from '@temporalio/worker';
import { parsePermitId, permitId, queueId, waiterId } from '@/shared/permit-id';
import { DRAINED, type PermitInput, PREEMPT, type PreemptInput, REVOKE } from '@/shared/protocol';
import { type HistoryEvent, isClosing, timeMs } from '../../../scripts/support/history-events';
import { CHAOS_HEADER } from './actors/signal-faults';
import { checkTurns, payload } from './checks/queue-order';
import { HOLDER_PREFIX } from './holder-prefix';
import type { ChaosRecord, FaultEvent, PermitRun, WorkflowPause } from './record';

type History = Awaited<ReturnType<WorkflowHandle['fetchHistory']>>;

type Findings = Pick<ChaosRecord, 'permits' | 'pauses' | 'disorder' | 'turns' | 'replayed' | 'replayFailures'> & {
  faults: FaultEvent[];
};

/** The server's number for the cause of such a failure: the SDK has no name for it that is public. */
const PAUSE_REQUESTED_BEFORE_TASK_STARTED = 39;

/** How many histories are fetched at once. */
const AT_ONCE = 8;

/**
 * Reads every history of these pools: of permits, queues, waiters and holding Workflows, and replays it on today's code. A history
 * is read, judged and let go, for a long run has tens of thousands. One that breaks a promise is kept in `directory`: a cluster's
 * database is gone with the run.
 */
export async function readHistories(
  client: Client,
  resources: readonly string[],
  bundle: string,
  directory: string,
): Promise<Findings> {
  const findings: Findings = {
    permits: [],
    pauses: [],
    disorder: [],
    turns: 0,
    replayed: 0,
    replayFailures: [],
    faults: [],
  };
  const broken: Run[] = [];
  const runs = await listRuns(client, resources);
  const results = Worker.runReplayHistories(
    { workflowBundle: { codePath: bundle } },
    histories(client, runs, (workflowId, runId, history) => {
      const before = findings.disorder.length;
      note(findings, workflowId, runId, history);
      if (findings.disorder.length > before) broken.push({ workflowId, runId });
    }),
  );
  for await (const { workflowId, runId, error } of results) {
    findings.replayed++;
    if (!error) continue;
    broken.push({ workflowId, runId });
    findings.replayFailures.push(
      `${workflowId}, run ${runId}: ${error instanceof ReplayError ? error.message : String(error)}`,
    );
  }
  for (const run of broken) {
    const { history } = await fetchHistory(client, run);
    await writeFile(join(directory, `history-${run.runId}.json`), `${historyToJSON(history)}\n`);
  }
  return findings;
}

/** Permits of these pools that run now. */
export async function runningPermits(client: Client, resources: readonly string[]): Promise<string[]> {
  const running: string[] = [];
  for (const resource of resources) {
    const query = `WorkflowId STARTS_WITH ${JSON.stringify(permitId({ resource, slot: '' }))} AND ExecutionStatus = "Running"`;
    for await (const { workflowId, runId } of client.workflow.list({ query })) {
      // Visibility is late. The server's own word counts.
      const { status } = await client.workflow.getHandle(workflowId, runId).describe();
      if (status.name === 'RUNNING') running.push(`${workflowId}, run ${runId}`);
    }
  }
  return running;
}

interface Run {
  workflowId: string;
  runId: string;
}

async function listRuns(client: Client, resources: readonly string[]): Promise<Run[]> {
  const runs = new Map<string, Run>();
  for (const resource of resources) {
    for (const prefix of [
      permitId({ resource, slot: '' }),
      queueId(resource),
      waiterId(resource, ''),
      `${HOLDER_PREFIX}${resource}:`,
    ]) {
      const query = `WorkflowId STARTS_WITH ${JSON.stringify(prefix)}`;
      for await (const { workflowId, runId } of client.workflow.list({ query, pageSize: 1_000 })) {
        runs.set(runId, { workflowId, runId });
      }
    }
  }
  return [...runs.values()];
}

/** Several are fetched ahead, because each is an answer from the server. */
async function* histories(
  client: Client,
  runs: readonly Run[],
  seen: (workflowId: string, runId: string, history: History) => void,
) {
  const fetched: Promise<{ run: Run; history: History }>[] = [];
  const fetchNext = (run: Run | undefined) => {
    if (run) fetched.push(fetchHistory(client, run));
  };
  const left = [...runs];
  for (let ahead = 0; ahead < AT_ONCE; ahead++) fetchNext(left.pop());
  for (let next = fetched.shift(); next; next = fetched.shift()) {
    const { run, history } = await next;
    fetchNext(left.pop());
    seen(run.workflowId, run.runId, history);
    if (isUnreadable(history.events ?? [])) continue;
    yield { workflowId: run.workflowId, history };
  }
}

/**
 * A Workflow Task of it waited for a worker as it was paused. Server 1.32 fails such a task, and no worker with SDK 1.24.0 can read the history
 * any more.
 */
export function isUnreadable(events: readonly HistoryEvent[]): boolean {
  return events.some(
    ({ workflowTaskFailedEventAttributes: failed }) => failed?.cause === PAUSE_REQUESTED_BEFORE_TASK_STARTED,
  );
}

async function fetchHistory(client: Client, run: Run): Promise<{ run: Run; history: History }> {
  for (let attempt = 1; ; attempt++) {
    try {
      return { run, history: await client.workflow.getHandle(run.workflowId, run.runId).fetchHistory() };
    } catch (error) {
      if (attempt >= 5) throw error;
      await delay(500 * attempt);
    }
  }
}

function note(findings: Findings, workflowId: string, runId: string, { events }: History): void {
  const all = events ?? [];
  const address = parsePermitId(workflowId);
  if (address) findings.permits.push(permitRun(address, runId, all));
  if (workflowId.startsWith(queueId(''))) {
    const { turns, disorder } = checkTurns(all);
    findings.turns += turns;
    findings.disorder.push(...disorder.map((what) => `${workflowId}, run ${runId}, ${what}`));
    if (all.at(-1)?.workflowExecutionContinuedAsNewEventAttributes) {
      findings.faults.push({ kind: 'queue-continued-as-new', atMs: timeMs(all.at(-1)) });
    }
  }
  findings.pauses.push(...pausesOf(workflowId, runId, all));
  for (const event of all) {
    if (address && event.workflowExecutionSignaledEventAttributes?.signalName === PREEMPT) {
      findings.faults.push({ kind: 'preempted', atMs: timeMs(event) });
    }
    const mark = event.signalExternalWorkflowExecutionInitiatedEventAttributes?.header?.fields?.[CHAOS_HEADER];
    if (mark?.data)
      findings.faults.push({ kind: String(JSON.parse(Buffer.from(mark.data).toString())), atMs: timeMs(event) });
  }
}

function permitRun(
  { resource, slot }: { resource: string; slot: string },
  runId: string,
  events: readonly HistoryEvent[],
): PermitRun {
  const started = events[0]?.workflowExecutionStartedEventAttributes;
  const purpose = started?.memo?.fields?.purpose?.data;
  const last = events.at(-1);
  const { watchedBy, holder, preemptible } = payload<Partial<PermitInput>>(started?.input?.payloads) ?? {};
  const asked = events.find(({ workflowExecutionSignaledEventAttributes: signal }) => {
    if (signal?.signalName !== PREEMPT || !preemptible) return false;
    return (payload<PreemptInput>(signal.input?.payloads)?.priorityKey ?? Number.NaN) < preemptible.priorityKey;
  });
  const rang = events.filter((event) => event.timerFiredEventAttributes).at(-1);
  return {
    resource,
    slot,
    runId,
    startedMs: timeMs(events[0]),
    closedMs: isClosing(last) ? timeMs(last) : Number.POSITIVE_INFINITY,
    drained: Buffer.from(purpose ?? []).toString() === JSON.stringify(DRAINED),
    ...(watchedBy !== undefined && { byTurn: true }),
    holder: holder?.workflowId ?? holder?.identity,
    ...(preemptible && { graceMs: preemptible.graceMs }),
    ...(asked && { askedMs: timeMs(asked) }),
    ...(events.some(isGivingWay) && { gaveWay: true }),
    outcome: events.some(isRevocation) ? 'revoked' : outcomeOf(last),
    ...(rang && { rangMs: timeMs(rang) }),
  };
}

function pausesOf(workflowId: string, runId: string, events: readonly HistoryEvent[]): WorkflowPause[] {
  const pauses: WorkflowPause[] = [];
  let fromMs: number | undefined;
  for (const event of events) {
    if (event.workflowExecutionPausedEventAttributes) fromMs = timeMs(event);
    else if (fromMs !== undefined && (event.workflowExecutionUnpausedEventAttributes || isClosing(event))) {
      pauses.push({ workflowId, runId, fromMs, toMs: timeMs(event) });
      fromMs = undefined;
    }
  }
  return fromMs === undefined ? pauses : [...pauses, { workflowId, runId, fromMs, toMs: Number.POSITIVE_INFINITY }];
}

function outcomeOf(event: HistoryEvent | undefined): string | undefined {
  const [payload] = event?.workflowExecutionCompletedEventAttributes?.result?.payloads ?? [];
  return payload?.data ? String(JSON.parse(Buffer.from(payload.data).toString())) : undefined;
}

function isGivingWay({ workflowPropertiesModifiedEventAttributes: written }: HistoryEvent): boolean {
  return written?.upsertedMemo?.fields?.preemptedUntilMs !== undefined;
}

/** One that is revoked in its pace says "released" all the same. */
function isRevocation({ workflowExecutionSignaledEventAttributes: signal }: HistoryEvent): boolean {
  return signal?.signalName === REVOKE;
}
