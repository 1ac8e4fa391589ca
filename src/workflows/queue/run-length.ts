import { workflowInfo } from '@temporalio/workflow';

/**
 * A run's length at which the queue continues as new as soon as it awaits no answer. The server suggests it at 4,096 only. But a
 * worker that has lost the run from its cache replays all of it before the next turn.
 */
const LONG_EVENTS = 500;

/** … and at which it sends nothing more until the answers are in. The server ends a run of 51,200 events, or of 50 MB. */
const OVERLONG = { events: 1_000, bytes: 16_000_000 };

/**
 * Says when the queue is to continue as new. The server fails that step if a signal came while the task was under way. The worker
 * then replays the run, and meanwhile the server refuses signals, so that the second try succeeds. So the queue must take it: it
 * looks at nothing but its length, which is as good a reason then as before. A short run keeps that time short.
 */
export function runLength(): 'short' | 'long' | 'overlong' {
  const { historyLength, historySize, continueAsNewSuggested } = workflowInfo();
  if (historyLength >= OVERLONG.events || historySize >= OVERLONG.bytes) return 'overlong';
  return continueAsNewSuggested || historyLength >= LONG_EVENTS ? 'long' : 'short';
}
