import type { Metric, MetricMeter } from '@temporalio/common';
import { GivesWay } from './acquirer';
import { isKeyResource, metricLabel } from './key-names';
import type { PermitLoss } from './loss';
import type { PermitOutcome } from './protocol';

/** How an acquire ended. `full`: the caller did not wait, and all slots were held. */
export type AcquireOutcome = 'acquired' | 'full' | 'timeout' | 'cancelled' | 'failed';

/** The stages of a hand-off: `turn` until the queue's turn is delivered, `claim` from then until the waiter holds the slot. */
type HandoffStage = 'turn' | 'claim';

/** Why a turn brought no permit: another acquirer was faster, or the waiter had left, had ended, or did nothing. */
type UnusedTurn = 'missed' | 'declined' | 'gone' | 'overdue';

/** The gauge of the waiters in the queue. */
export const WAITERS = 'temporal_semaphore_waiters';

const ACQUIRE_LATENCY = 'temporal_semaphore_acquire_latency';
const HOLD_DURATION = 'temporal_semaphore_hold_duration';
const HANDOFF_LATENCY = 'temporal_semaphore_handoff_latency';
const POOL_WAIT_LATENCY = 'temporal_semaphore_pool_wait_latency';

/** From a few milliseconds to a day: an acquire may take either. */
const LONG_MS = [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 7_200_000];
const DAY_MS = 86_400_000;

/**
 * Histogram buckets for this package's metrics, in milliseconds; the SDK's own end at 10 s. Give them to the Runtime as
 * `telemetryOptions.metrics.prometheus.histogramBucketOverrides`, or `otel`'s.
 */
export const HISTOGRAM_BUCKETS: Record<string, number[]> = {
  [ACQUIRE_LATENCY]: [...LONG_MS, DAY_MS],
  [HOLD_DURATION]: [...LONG_MS, DAY_MS],
  [POOL_WAIT_LATENCY]: [1, ...LONG_MS, DAY_MS],
  [HANDOFF_LATENCY]: [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000],
};

/**
 * Records every metric of this package with the given meter. In Workflow code that is the SDK's, which records nothing on
 * replay. Durations are whole milliseconds, as in the SDK's own metrics. No label contains an ID: each ID would be a series.
 */
export class SemaphoreMetrics {
  private readonly made = new Map<string, Metric>();

  constructor(private readonly meter: MetricMeter) {}

  acquire(resource: string, outcome: AcquireOutcome, latencyMs: number): void {
    this.time(ACQUIRE_LATENCY, 'From the call of acquire to its end', latencyMs, { resource, outcome });
  }

  hold(resource: string, outcome: PermitOutcome, durationMs: number): void {
    this.time(HOLD_DURATION, 'How long a permit was held', durationMs, { resource, outcome });
  }

  handoff(resource: string, stage: HandoffStage, latencyMs: number): void {
    this.time(HANDOFF_LATENCY, 'How long each stage of a hand-off took', latencyMs, { resource, stage });
  }

  lost(resource: string, cause: PermitLoss): void {
    this.count('temporal_semaphore_permit_lost', 'Permits that ended before their holder released them', {
      resource,
      cause,
    });
  }

  turnOffered(resource: string): void {
    this.count('temporal_semaphore_turn_offered', 'Turns that the queue gave', { resource });
  }

  turnUnused(resource: string, reason: UnusedTurn): void {
    this.count('temporal_semaphore_turn_unused', 'Turns that ended without a permit', { resource, reason });
  }

  /** Leaves out the queues of keys: one series can't show the waiters of many queues. */
  waiters(resource: string, count: number): void {
    if (isKeyResource(resource)) return;
    const make = () =>
      this.meter.createGauge(WAITERS, 'int', undefined, 'Waiters in the queue, not counting turns under way');
    this.metric(WAITERS, make).set(count, { resource });
  }

  /** Times a caller of a permit pool that was served in its process, without a call to the server. */
  poolWait(resource: string, outcome: AcquireOutcome, latencyMs: number): void {
    this.time(POOL_WAIT_LATENCY, 'How long a call waited for a permit of a permit pool', latencyMs, {
      resource,
      outcome,
    });
  }

  poolReuse(resource: string): void {
    this.count('temporal_semaphore_pool_reuse', 'Calls under a permit that had served another call', { resource });
  }

  private count(name: string, description: string, labels: Record<string, string>): void {
    this.metric(name, () => this.meter.createCounter(name, undefined, description)).add(1, folded(labels));
  }

  /** Replaces a negative time with 0: a clock may be set back, and a meter throws on a value below 0. */
  private time(name: string, description: string, ms: number, labels: Record<string, string>): void {
    const make = () => this.meter.createHistogram(name, 'int', 'ms', description);
    this.metric(name, make).record(Math.max(0, Math.round(ms)), folded(labels));
  }

  private metric<T extends Metric>(name: string, make: () => T): T {
    const made = (this.made.get(name) as T | undefined) ?? make();
    this.made.set(name, made);
    return made;
  }
}

/** Ten thousand keys must not be ten thousand series. */
function folded(labels: Record<string, string>): Record<string, string> {
  return { ...labels, resource: metricLabel(labels.resource ?? '') };
}

/**
 * Times one acquire. Results and errors pass through it: an asynchronous wrapper would add a turn of the event loop, and in
 * a Workflow that could change the order of commands.
 */
export class AcquireTimer {
  private readonly sinceMs: number;

  constructor(
    private readonly metrics: SemaphoreMetrics,
    private readonly resource: string,
    private readonly nowMs: () => number,
    private readonly outcomeOf: (error: unknown) => AcquireOutcome,
  ) {
    this.sinceMs = nowMs();
  }

  ended<T>(permit: T): T {
    this.record(permit === undefined ? 'full' : 'acquired');
    return permit;
  }

  /** Counts no failure of an acquire that gives way: it starts again. */
  failed(error: unknown): unknown {
    if (!(error instanceof GivesWay)) this.record(this.outcomeOf(error));
    return error;
  }

  private record(outcome: AcquireOutcome): void {
    this.metrics.acquire(this.resource, outcome, this.nowMs() - this.sinceMs);
  }
}
