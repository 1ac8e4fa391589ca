import type { WorkflowHandle } from '@temporalio/client';

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
