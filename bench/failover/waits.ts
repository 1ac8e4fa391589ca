import type { Client } from '@temporalio/client';
import { mapConcurrently } from '@/client/server/map-concurrently';
import { type HistoryEvent as Event, timeMs } from '../../scripts/support/history-events';

/** Time that a Workflow lost between two events of its history of which the second answers the first. */
export interface Wait {
  workflowId: string;
  cause: string;
  fromMs: number;
  toMs: number;
}

/** Every wait of at least `leastMs` in the histories of the runs that `query` finds. */
export async function readWaits(client: Client, query: string, leastMs: number): Promise<Wait[]> {
  const runs: { workflowId: string; runId: string }[] = [];
  for await (const { workflowId, runId } of client.workflow.list({ query })) runs.push({ workflowId, runId });
  const found = await mapConcurrently(runs, async ({ workflowId, runId }) => {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    return waitsIn(workflowId, events ?? []).filter(({ fromMs, toMs }) => toMs - fromMs >= leastMs);
  });
  return found.flat();
}

function waitsIn(workflowId: string, events: readonly Event[]): Wait[] {
  const byId = new Map(events.map((event) => [String(event.eventId), event]));
  return events.flatMap((event) => {
    const answered = answer(event);
    const asked = answered && byId.get(String(answered.askedBy));
    if (!asked) return [];
    const fromMs = timeMs(asked) + timerMs(asked);
    return [{ workflowId, cause: answered.cause, fromMs, toMs: timeMs(event) }];
  });
}

/** Which event this one answers, and what the time between them was spent on. */
function answer(event: Event): { askedBy: unknown; cause: string } | undefined {
  const started = event.workflowTaskStartedEventAttributes;
  if (started) return { askedBy: started.scheduledEventId, cause: 'task: until a worker had it' };
  const completed = event.workflowTaskCompletedEventAttributes;
  if (completed) return { askedBy: completed.startedEventId, cause: 'task: until its worker had answered' };
  const failed = event.workflowTaskFailedEventAttributes;
  if (failed) return { askedBy: failed.startedEventId, cause: 'task: until it failed' };
  const late = event.workflowTaskTimedOutEventAttributes;
  if (late) {
    const wasStarted = Number(late.startedEventId) > 0;
    return wasStarted
      ? { askedBy: late.startedEventId, cause: 'task: its worker or its answer was lost (start-to-close)' }
      : { askedBy: late.scheduledEventId, cause: 'task: kept for a worker that had it cached (sticky)' };
  }
  const signalled =
    event.externalWorkflowExecutionSignaledEventAttributes ??
    event.signalExternalWorkflowExecutionFailedEventAttributes;
  if (signalled) return { askedBy: signalled.initiatedEventId, cause: 'signal to another Workflow: until answered' };
  const child =
    event.childWorkflowExecutionStartedEventAttributes ?? event.startChildWorkflowExecutionFailedEventAttributes;
  if (child) return { askedBy: child.initiatedEventId, cause: 'start of a child: until answered' };
  const fired = event.timerFiredEventAttributes;
  if (fired) return { askedBy: fired.startedEventId, cause: 'timer: fired late' };
  return undefined;
}

/** How long a timer was to run; 0 for other events. */
function timerMs(event: Event): number {
  const { startToFireTimeout } = event.timerStartedEventAttributes ?? {};
  return Number(startToFireTimeout?.seconds ?? 0) * 1_000 + Number(startToFireTimeout?.nanos ?? 0) / 1e6;
}
