import type { Client } from '@temporalio/client';
import { parsePermitId, permitId } from '@/shared/permit-id';
import { RELEASE } from '@/shared/protocol';
import { BODY_MARKS } from './body-marks';
import { type HistoryEvent as Event, isClosing, timeMs } from './history-events';

/**
 * One hold, as its holder knew it: from the event that told the holder of its claim to its release command or the end of
 * the permit, whichever came first. The permit's own *start* event proves nothing: the server stamps it before it takes the
 * ID's lock, so it may lie before the end of the permit's predecessor.
 *
 * Where the holder's history tells when its body (the function under the permit) ran, the hold is at least as long as that:
 * what counts is when work was done. It isn't so for a permit that was lost, whose holder was told and may take a while to stop.
 */
export interface HoldInterval {
  slot: string;
  runId: string;
  /** The holder's Workflow ID; empty for a client. */
  holder: string;
  fromMs: number;
  /** Infinity while held. */
  toMs: number;
  /** Its body began before the holder knew of its claim, or ended after its release command: it worked without a permit. */
  strayed?: true;
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
 * of clients come from what they reported; a client's permit that nobody reported was given back unseen. With `since`, only
 * of permits that had not ended by then.
 */
export async function readHoldIntervals(
  client: Client,
  resource: string,
  { reported, since }: { reported?: readonly ReportedHold[]; since?: Date } = {},
): Promise<HoldInterval[]> {
  const reports = new Map(reported?.map((report) => [report.runId, report]));
  const permits = await inParallel(await listPermitRuns(client, resource, since), async ({ workflowId, runId }) => {
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
    const history = parents.get(parent.runId ?? '') ?? [];
    const held = history.filter((event) => concerns(event, runId));
    const known = held.find((event) => event.childWorkflowExecutionStartedEventAttributes);
    if (!known) return []; // its parent ended before it learned of the claim: nobody ever held it
    const released = held.find((event) => event.signalExternalWorkflowExecutionInitiatedEventAttributes);
    const hold = {
      slot,
      runId,
      holder: parent.workflowId ?? '',
      fromMs: timeMs(known),
      toMs: released ? Math.min(timeMs(released), closed) : closed,
    };
    const wasReleased = released && timeMs(released) <= closed;
    return wasReleased ? withBody(hold, known, released, bodyOf(history, runId)) : hold;
  });
}

/** Holds whose body ran without the permit, by the order of their holder's own events: must be empty. */
export function strays(intervals: readonly HoldInterval[]): HoldInterval[] {
  return intervals.filter(({ strayed }) => strayed);
}

/** When the body ran: between the test's marks, or while activities ran that had the fencing token. */
function bodyOf(history: readonly Event[], permitRunId: string): { began?: Event; ended?: Event } {
  const marked = (key: string) =>
    history.find((event) => event.workflowPropertiesModifiedEventAttributes?.upsertedMemo?.fields?.[key]);
  const began = marked(BODY_MARKS.began(permitRunId));
  if (began) return { began, ended: marked(BODY_MARKS.ended(permitRunId)) };

  const activities = history.filter((event) =>
    event.activityTaskScheduledEventAttributes?.input?.payloads?.some(({ data }) =>
      Buffer.from(data ?? []).includes(permitRunId),
    ),
  );
  const ids = new Set(activities.map(({ eventId }) => String(eventId)));
  const ended = history.filter((event) => ids.has(String(activityEnded(event))));
  return { began: activities[0], ended: ended.at(-1) };
}

/** The scheduling event of the activity that ended. */
function activityEnded(event: Event) {
  return (
    event.activityTaskCompletedEventAttributes ??
    event.activityTaskFailedEventAttributes ??
    event.activityTaskTimedOutEventAttributes ??
    event.activityTaskCanceledEventAttributes
  )?.scheduledEventId;
}

/** Events of one history have an order, so a body that strays is found whatever the clocks say. */
function withBody(hold: HoldInterval, known: Event, released: Event, { began, ended }: ReturnType<typeof bodyOf>) {
  if (!began) return hold;
  const isAfter = (one: Event, other: Event) => Number(one.eventId) > Number(other.eventId);
  const strayed = isAfter(known, began) || isAfter(began, released) || (ended && isAfter(ended, released));
  return {
    ...hold,
    fromMs: Math.min(hold.fromMs, timeMs(began)),
    toMs: Math.max(hold.toMs, timeMs(ended ?? began)),
    ...(strayed && { strayed: true as const }),
  };
}

/** The most holds that were under way at one time. A hold that ends as another begins does not overlap it. */
export function mostAtOnce(intervals: readonly Pick<HoldInterval, 'fromMs' | 'toMs'>[]): number {
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

async function listPermitRuns(
  client: Client,
  resource: string,
  since: Date | undefined,
): Promise<{ workflowId: string; runId: string }[]> {
  const recent = since ? ` AND (ExecutionStatus = "Running" OR CloseTime >= "${since.toISOString()}")` : '';
  const runs = [];
  for await (const { workflowId, runId } of client.workflow.list({ query: permitsQuery(resource) + recent })) {
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
