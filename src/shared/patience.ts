import { type BackoffPolicy, backoffMs } from './backoff';

/** How an acquirer goes on that the queue had no room for. */
const QUEUE_FULL: BackoffPolicy = { baseMs: 1_000, maxMs: 30_000, factor: 2, jitter: 0.5 };

/**
 * How long a parked acquirer waits for word from the queue before it looks for itself. It grows steeply with each silence,
 * so that a wait of ten minutes takes two looks, and one of a day 150.
 */
export class Patience {
  private readonly silent: BackoffPolicy;
  private policy: BackoffPolicy;
  private silences = 0;

  constructor(recheckAfterMs: number) {
    this.silent = { baseMs: recheckAfterMs, maxMs: recheckAfterMs * 20, factor: 6, jitter: 0.25 };
    this.policy = this.silent;
  }

  /** @param random a number in [0, 1) */
  nextMs(random: number): number {
    return backoffMs(this.silences, random, this.policy);
  }

  /** The queue is alive: it gave us a turn. */
  hadTurn(): void {
    this.silences = 0;
  }

  /** The queue is alive and has no room for us. */
  hadNoRoom(): void {
    this.policy = QUEUE_FULL;
  }

  hadSilence(): void {
    this.silences++;
    this.policy = this.silent;
  }
}
