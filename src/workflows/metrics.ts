import { isCancellation, metricMeter, workflowInfo } from '@temporalio/workflow';
import { type AcquireOutcome, AcquireTimer, SemaphoreMetrics } from '../shared/metrics';
import { parsePermitId, queueId } from '../shared/permit-id';
import type { Holder, PermitOutcome } from '../shared/protocol';
import { LineFullError, PermitTimeoutError } from './errors';

/** The metrics of this Workflow. The SDK's meter adds namespace, task queue and Workflow type. */
export const metrics = new SemaphoreMetrics(metricMeter);

/** Starts to time an acquire, on the Workflow's clock. */
export function timeAcquire(resource: string): AcquireTimer {
  return new AcquireTimer(metrics, resource, Date.now, outcomeOf);
}

/** Counts a permit's hold when it ends. A permit with which the queue keeps a slot out of use does not count. */
export function countHold(holder: Holder | undefined, outcome: PermitOutcome): void {
  const { workflowId, startTime } = workflowInfo();
  const resource = parsePermitId(workflowId)?.resource;
  if (resource === undefined || holder?.workflowId === queueId(resource)) return;
  metrics.hold(resource, outcome, Date.now() - startTime.getTime());
}

function outcomeOf(error: unknown): AcquireOutcome {
  if (error instanceof LineFullError) return 'full';
  if (error instanceof PermitTimeoutError) return error.timeoutMs === 0 ? 'full' : 'timeout';
  return isCancellation(error) ? 'cancelled' : 'failed';
}
