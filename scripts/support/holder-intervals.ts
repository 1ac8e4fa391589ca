import type { Client, WorkflowHandle } from '@temporalio/client';
import { parsePermitId, permitId } from '@/shared/permit-id';
import { RELEASE } from '@/shared/protocol';

type Event = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/**
 * One hold, as its holder knew it: from the event that told the holder of its claim to its release command or the end of
 * the permit, whichever came first. The permit's own *start* event proves nothing: the server stamps it before it takes the
 * ID's lock, so it may lie before the end of the permit's predecessor.
 */
export interface HoldInterval {
  slot: string;
  runId: string;
  /** The holder's Workflow ID; empty for a client. */
  holder: string;
  fromMs: number;
  /** Infinity while held. */
  toMs: number;
}

/** What a holder outside Workflows says of its hold, which no history tells: times of its own clock, in epoch milliseconds. */
export interface ReportedHold {
  runId: string;
  /** When its acquire resolved. */
  fromMs: number;
  /** When it called release, or was told of its loss; absent if it did neither. */
  toMs?: number;
}

/**
 * Reads every hold of `resource` out of the server's histories: of the permits, and of the Workflows that held them. Holds
 * of clients come from what they reported; a client's permit that nobody reported was given back unseen.
 */
export async function readHoldIntervals(
  client: Client,
  resource: string,
  reported?: readonly ReportedHold[],
): Promise<HoldInterval[]> {
  const reports = new Map(reported?.map((report) => [report.runId, report]));
  const permits = await inParallel(await listPermitRuns(client, resource), async ({ workflowId, runId }) => {
    const events = await fetchEvents(client, workflowId, runId);
    return {
      workflowId,
      runId,
      events,
      // No parent: a client holds it.
      parent: events[0]?.workflowExecutionStartedEventAttributes?.parentWorkflowExecution,
    };
  });

  const parentRuns = new Map(
    permits.flatMap(({ parent }) => (parent ? [[parent.runId ?? '', parent.workflowId ?? '']] : [])),
  );
  const parents = new Map(
    await inParallel([...parentRuns], async ([runId, workflowId]) => {
      return [runId, await fetchEvents(client, workflowId, runId)] as const;
    }),
  );

  return permits.flatMap(({ workflowId, runId, events, parent }) => {
    const closed = isClosing(events.at(-1)) ? timeMs(events.at(-1)) : Number.POSITIVE_INFINITY;
    const slot = parsePermitId(workflowId)?.slot ?? '';
    if (!parent) {
      if (!reported) throw new Error(`A client held ${workflowId}, run ${runId}, and no report says for how long`);
      const report = reports.get(runId);
      if (!report) return [];
      return { slot, runId, holder: '', fromMs: report.fromMs, toMs: Math.min(report.toMs ?? closed, closed) };
    }
    const held = (parents.get(parent.runId ?? '') ?? []).filter((event) => concerns(event, runId));
    const known = held.find((event) => event.childWorkflowExecutionStartedEventAttributes);
    if (!known) return []; // its parent ended before it learned of the claim: nobody ever held it
    const released = held.find((event) => event.signalExternalWorkflowExecutionInitiatedEventAttributes);
    return {
      slot,
      runId,
      holder: parent.workflowId ?? '',
      fromMs: timeMs(known),
      toMs: released ? Math.min(timeMs(released), closed) : closed,
    };
  });
}

/** The most holds that were under way at one time. A hold that ends as another begins does not overlap it. */
export function mostAtOnce(intervals: readonly HoldInterval[]): number {
  const changes = intervals.flatMap(({ fromMs, toMs }) => [
    { atMs: fromMs, by: 1 },
    { atMs: toMs, by: -1 },
  ]);
  changes.sort((a, b) => a.atMs - b.atMs || a.by - b.by);
  let now = 0;
  let most = 0;
  for (const { by } of changes) {
    now += by;
    most = Math.max(most, now);
  }
  return most;
}

/** Pairs of holds of one slot that overlapped: must be empty. */
export function overlaps(intervals: readonly HoldInterval[]): [HoldInterval, HoldInterval][] {
  const bySlot = new Map<string, HoldInterval[]>();
  for (const interval of [...intervals].sort((a, b) => a.fromMs - b.fromMs)) {
    bySlot.set(interval.slot, [...(bySlot.get(interval.slot) ?? []), interval]);
  }
  const found: [HoldInterval, HoldInterval][] = [];
  for (const holds of bySlot.values()) {
    for (const [index, next] of holds.entries()) {
      const before = holds[index - 1];
      if (before && before.toMs > next.fromMs) found.push([before, next]);
    }
  }
  return found;
}

/** A visibility query for the Workflows of `resource`'s permits. Visibility lags behind by milliseconds to seconds. */
export function permitsQuery(resource: string): string {
  return `WorkflowId STARTS_WITH ${JSON.stringify(permitId({ resource, slot: '' }))}`;
}

async function listPermitRuns(client: Client, resource: string): Promise<{ workflowId: string; runId: string }[]> {
  const runs = [];
  for await (const { workflowId, runId } of client.workflow.list({ query: permitsQuery(resource) })) {
    // A resource may hold ":", so "a" also finds what belongs to "a:b".
    if (parsePermitId(workflowId)?.resource === resource) runs.push({ workflowId, runId });
  }
  return runs;
}

async function fetchEvents(client: Client, workflowId: string, runId: string): Promise<Event[]> {
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  return events ?? [];
}

/** Whether this event of a holder says that it got, or is about to release, the permit of this run. */
function concerns(event: Event, permitRunId: string): boolean {
  const signal = event.signalExternalWorkflowExecutionInitiatedEventAttributes;
  return (
    event.childWorkflowExecutionStartedEventAttributes?.workflowExecution?.runId === permitRunId ||
    (signal?.signalName === RELEASE && signal.workflowExecution?.runId === permitRunId)
  );
}

function isClosing(event: Event | undefined): boolean {
  return Boolean(
    event?.workflowExecutionCompletedEventAttributes ||
      event?.workflowExecutionFailedEventAttributes ||
      event?.workflowExecutionTerminatedEventAttributes ||
      event?.workflowExecutionTimedOutEventAttributes ||
      event?.workflowExecutionCanceledEventAttributes,
  );
}

function timeMs(event: Event | undefined): number {
  const { seconds, nanos } = event?.eventTime ?? {};
  return Number(seconds ?? 0) * 1_000 + (nanos ?? 0) / 1e6;
}

/** A few at a time: enough to be quick, not so many that the server's rate limits bite. */
async function inParallel<T, R>(items: readonly T[], work: (item: T) => Promise<R>, lanes = 8): Promise<R[]> {
  const results: R[] = [];
  const queue = [...items.entries()];
  const lane = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) results[next[0]] = await work(next[1]);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return results;
}
