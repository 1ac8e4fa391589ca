import { workflowInfo } from '@temporalio/workflow';

/**
 * A run's length at which the queue continues as new as soon as it awaits no answer. The server suggests this only at 4,096. But a
 * worker that has lost the run from its cache replays the whole run before the next turn. On a busy machine each 1,000 events
 * can take 10 seconds, which is as long as the server waits for a Workflow Task: a longer run might never end.
 */
const LONG_EVENTS = 500;

/** … and at which the queue sends nothing more until all answers are in. The server ends a run of 51,200 events, or of 50 MB. */
const OVERLONG = { events: 1_000, bytes: 16_000_000 };

/**
 * Says when the queue is to continue as new. The server fails this step if a signal came while the task was under way. The worker
 * then replays the run, and meanwhile the server refuses signals, so that the second try succeeds. The decision depends on the
 * history's length alone, so the second try decides the same. A short run keeps the replay short.
 */
export function runLength(): 'short' | 'long' | 'overlong' {
  const { historyLength, historySize, continueAsNewSuggested } = workflowInfo();
  if (historyLength >= OVERLONG.events || historySize >= OVERLONG.bytes) return 'overlong';
  return continueAsNewSuggested || historyLength >= LONG_EVENTS ? 'long' : 'short';
}
