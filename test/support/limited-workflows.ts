// Workflows whose activities a worker limits: they know nothing of it.
import { ActivityCancellationType, isCancellation, proxyActivities } from '@temporalio/workflow';

export interface LimitedActivities {
  /** Works for that long under its permit; gives the permit's token. */
  callVendor(callMs: number): Promise<string>;
}

const retry = { maximumAttempts: 20, initialInterval: 100, backoffCoefficient: 1 };

/** Four calls at once, by the worker of another task queue. */
export async function fourCalls(taskQueue: string, callMs: number): Promise<string[]> {
  const { callVendor } = proxyActivities<LimitedActivities>({ taskQueue, startToCloseTimeout: '1 minute', retry });
  return await Promise.all(Array.from({ length: 4 }, () => callVendor(callMs)));
}

export interface OneCall {
  callMs: number;
  startToCloseMs: number;
  /** @default none */
  heartbeatMs?: number;
  attempts?: number;
  fairnessWeight?: number;
}

/** @returns the token, or `"cancelled"` */
export async function oneCall(
  taskQueue: string,
  { callMs, startToCloseMs, heartbeatMs, attempts, fairnessWeight }: OneCall,
): Promise<string> {
  const { callVendor } = proxyActivities<LimitedActivities>({
    taskQueue,
    startToCloseTimeout: startToCloseMs,
    heartbeatTimeout: heartbeatMs,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    ...(fairnessWeight && { priority: { fairnessWeight } }),
    retry: { ...retry, ...(attempts && { maximumAttempts: attempts }) },
  });
  try {
    return await callVendor(callMs);
  } catch (error) {
    if (isCancellation(error)) return 'cancelled';
    throw error;
  }
}
