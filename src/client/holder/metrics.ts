import { type MetricMeter, noopMetricMeter } from '@temporalio/common';
import { type AcquireOutcome, AcquireTimer, SemaphoreMetrics } from '../../shared/metrics';
import { monotonicMs } from '../server/clock';
import { LineFullError, PermitTimeoutError } from '../server/errors';
import type { Grant } from './grant';

/** The metrics of a client that was given a meter. The permits' own Workflows measure how long they are held. */
export class ClientMetrics {
  private readonly metrics: SemaphoreMetrics;

  constructor(meter: MetricMeter = noopMetricMeter) {
    this.metrics = new SemaphoreMetrics(meter);
  }

  /** Times one acquire, and counts its permit's loss. */
  async acquire<T extends Grant | undefined>(
    resource: string,
    signal: AbortSignal,
    acquire: () => Promise<T>,
  ): Promise<T> {
    const timer = new AcquireTimer(this.metrics, resource, monotonicMs, (error) => outcomeOf(error, signal));
    try {
      return this.watch(timer.ended(await acquire()));
    } catch (error) {
      throw timer.failed(error);
    }
  }

  /** Counts the permit's loss. */
  watch<T extends Grant | undefined>(permit: T): T {
    permit?.whenLost(({ resource, how }) => this.metrics.lost(resource, how));
    return permit;
  }

  /** Records that a caller of a permit pool was served by a permit in its process, or how else it ended. */
  poolWait(resource: string, sinceMs: number, outcome: AcquireOutcome): void {
    this.metrics.poolWait(resource, outcome, monotonicMs() - sinceMs);
  }

  poolReuse(resource: string): void {
    this.metrics.poolReuse(resource);
  }

  /** Records that a turn, which came at `turnMs`, has become a permit. */
  claimed(resource: string, turnMs: number): void {
    this.metrics.handoff(resource, 'claim', monotonicMs() - turnMs);
  }
}

function outcomeOf(error: unknown, { aborted }: AbortSignal): AcquireOutcome {
  if (error instanceof LineFullError) return 'full';
  if (error instanceof PermitTimeoutError) return error.timeoutMs === 0 ? 'full' : 'timeout';
  return aborted ? 'cancelled' : 'failed';
}
