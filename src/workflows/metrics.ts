import { isCancellation, metricMeter } from '@temporalio/workflow';
import { type AcquireOutcome, AcquireTimer, SemaphoreMetrics } from '../shared/metrics';
import { PermitTimeoutError } from './errors';

/** The metrics of this Workflow, by the SDK's meter, which adds namespace, task queue and Workflow type. */
export const metrics = new SemaphoreMetrics(metricMeter);

/** Starts now, on the Workflow's clock. */
export function timeAcquire(resource: string): AcquireTimer {
  return new AcquireTimer(metrics, resource, Date.now, outcomeOf);
}

function outcomeOf(error: unknown): AcquireOutcome {
  if (error instanceof PermitTimeoutError) return error.timeoutMs === 0 ? 'full' : 'timeout';
  return isCancellation(error) ? 'cancelled' : 'failed';
}
