/**
 * Temporal's priority of permits, queues and waiters, for a server or worker with a backlog of tasks. Without it, a child
 * inherits its parent's priority: a queue that the least urgent waiter has started would serve everyone late. These tasks are
 * short, and others wait for them.
 */
export const WORKFLOW_PRIORITY = { priorityKey: 1, fairnessKey: 'permits', fairnessWeight: 1 };

/** The server takes 400 bytes of summary; this many characters fit in any script. */
const MAX_SUMMARY_LENGTH = 90;

/** A permit's line in the Web UI. */
export function permitSummary(holder: string, purpose: string | undefined): string {
  const text = purpose ? `${purpose} (${holder})` : `held by ${holder}`;
  return text.length > MAX_SUMMARY_LENGTH ? `${text.slice(0, MAX_SUMMARY_LENGTH - 1)}…` : text;
}
