/**
 * The priority of permits, queues and waiters as Workflows, where the server or a worker has tasks in line. Set, because a
 * child inherits its parent's: a queue that was started by the least urgent waiter would serve everyone late. Their tasks
 * are short, and others wait for them.
 */
export const WORKFLOW_PRIORITY = { priorityKey: 1, fairnessKey: 'permits', fairnessWeight: 1 };
