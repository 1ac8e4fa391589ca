import { isCancellation, metricMeter, workflowInfo } from '@temporalio/workflow';
import { type AcquireOutcome, AcquireTimer, SemaphoreMetrics } from '../shared/metrics';
import { parsePermitId, queueId } from '../shared/permit-id';
import type { Holder, PermitOutcome } from '../shared/protocol';
import { PermitTimeoutError } from './errors';

/** The metrics of this Workflow, by the SDK's meter, which adds namespace, task queue and Workflow type. */
export const metrics = new SemaphoreMetrics(metricMeter);

/** Starts now, on the Workflow's clock. */
export function timeAcquire(resource: string): AcquireTimer {
  return new AcquireTimer(metrics, resource, Date.now, outcomeOf);
}

/** In a permit, as it ends. Those by which the queue keeps slots out of use are nobody's. */
export function countHold(holder: Holder | undefined, outcome: PermitOutcome): void {
  const { workflowId, startTime } = workflowInfo();
  const resource = parsePermitId(workflowId)?.resource;
  if (resource === undefined || holder?.workflowId === queueId(resource)) return;
  metrics.hold(resource, outcome, Date.now() - startTime.getTime());
}

function outcomeOf(error: unknown): AcquireOutcome {
  if (error instanceof PermitTimeoutError) return error.timeoutMs === 0 ? 'full' : 'timeout';
  return isCancellation(error) ? 'cancelled' : 'failed';
}
