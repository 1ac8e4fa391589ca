// Workflows whose activities a worker limits: they know nothing of it.
import {
  ActivityCancellationType,
  CancellationScope,
  isCancellation,
  proxyActivities,
  sleep,
} from '@temporalio/workflow';

export * from '../../src/workflows';

export interface LimitedActivities {
  /** Works for that long under its permit; gives the permit's token. */
  callVendor(callMs: number): Promise<string>;
}

const retry = { maximumAttempts: 20, initialInterval: 100, backoffCoefficient: 1 };

const patient = proxyActivities<LimitedActivities>({ startToCloseTimeout: '1 minute', retry });

/** Four calls at once. */
export async function fourCalls(callMs: number): Promise<string[]> {
  return await Promise.all(Array.from({ length: 4 }, () => patient.callVendor(callMs)));
}

export interface OneCall {
  callMs: number;
  startToCloseMs: number;
  /** @default none */
  heartbeatMs?: number;
  /** Cancels it after so long. */
  cancelAfterMs?: number;
  attempts?: number;
  fairnessWeight?: number;
}

/** @returns the token, or `"cancelled"` */
export async function oneCall({
  callMs,
  startToCloseMs,
  heartbeatMs,
  cancelAfterMs,
  attempts,
  fairnessWeight,
}: OneCall): Promise<string> {
  const { callVendor } = proxyActivities<LimitedActivities>({
    startToCloseTimeout: startToCloseMs,
    heartbeatTimeout: heartbeatMs,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    ...(fairnessWeight && { priority: { fairnessWeight } }),
    retry: { ...retry, ...(attempts && { maximumAttempts: attempts }) },
  });
  const scope = new CancellationScope();
  const call = scope.run(() => callVendor(callMs));
  if (cancelAfterMs !== undefined) void sleep(cancelAfterMs).then(() => scope.cancel());
  try {
    return await call;
  } catch (error) {
    if (isCancellation(error)) return 'cancelled';
    throw error;
  }
}
