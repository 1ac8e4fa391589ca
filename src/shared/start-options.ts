/**
 * The priority of permits, queues and waiters as Workflows, where the server or a worker has tasks in line. Set, because a
 * child inherits its parent's: a queue that was started by the least urgent waiter would serve everyone late. Their tasks
 * are short, and others wait for them.
 */
export const WORKFLOW_PRIORITY = { priorityKey: 1, fairnessKey: 'permits', fairnessWeight: 1 };

/** The server takes 400 bytes of summary; this many characters fit in any script. */
const MAX_SUMMARY_LENGTH = 90;

/** A permit in one line, for the Web UI. */
export function permitSummary(holder: string, purpose: string | undefined): string {
  const text = purpose ? `${purpose} (${holder})` : `held by ${holder}`;
  return text.length > MAX_SUMMARY_LENGTH ? `${text.slice(0, MAX_SUMMARY_LENGTH - 1)}…` : text;
}
