import type { Client, WorkflowHandle } from '@temporalio/client';

export type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/** Whether this event is a Workflow's end. */
export function isClosing(event: HistoryEvent | undefined): boolean {
  return Boolean(
    event?.workflowExecutionCompletedEventAttributes ||
      event?.workflowExecutionFailedEventAttributes ||
      event?.workflowExecutionTerminatedEventAttributes ||
      event?.workflowExecutionTimedOutEventAttributes ||
      event?.workflowExecutionCanceledEventAttributes,
  );
}

/** On the server's clock, in epoch milliseconds, with their fraction. */
export function timeMs(event: HistoryEvent | undefined): number {
  const { seconds, nanos } = event?.eventTime ?? {};
  return Number(seconds ?? 0) * 1_000 + (nanos ?? 0) / 1e6;
}

/** Of the latest run of a Workflow, and of the runs that it continues, the oldest first. Event IDs begin anew in each. */
export async function eventsOfRuns({ workflow }: Client, workflowId: string): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = [];
  let runId: string | undefined;
  do {
    const run: HistoryEvent[] = (await workflow.getHandle(workflowId, runId).fetchHistory()).events ?? [];
    events.unshift(...run);
    runId = run[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined;
  } while (runId);
  return events;
}
