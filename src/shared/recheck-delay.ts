import { type BackoffPolicy, backoffMs } from './backoff';

/** How an acquirer goes on that the queue had no room for. */
const QUEUE_FULL: BackoffPolicy = { baseMs: 1_000, maxMs: 30_000, factor: 2, jitter: 0.5 };

/**
 * How long a parked acquirer waits for word from the queue before it checks again: `recheckAfter`, and 20 to 25 times that once
 * the queue has answered, so that a wait of ten minutes takes one check, and one of a day 130. While an answer is owed it is
 * short again: the queue may be stuck, and then the acquirer has to look after itself.
 *
 *     fresh --asked--> owed --answered--> assured: 20 to 25 times longer --asked--> owed
 *     any --turn--> fresh          any --no room--> full: 1 s to 30 s
 */
export class RecheckDelay {
  private readonly short: BackoffPolicy;
  private readonly long: BackoffPolicy;
  private state: 'fresh' | 'owed' | 'assured' | 'full' = 'fresh';
  private refusals = 0;

  constructor(recheckAfterMs: number) {
    this.short = { baseMs: recheckAfterMs, maxMs: recheckAfterMs, factor: 1, jitter: 0.25 };
    this.long = { baseMs: recheckAfterMs * 25, maxMs: recheckAfterMs * 25, factor: 1, jitter: 0.2 };
  }

  /** @param random a number in [0, 1) */
  nextMs(random: number): number {
    if (this.state === 'full') return backoffMs(this.refusals - 1, random, QUEUE_FULL);
    return backoffMs(0, random, this.state === 'assured' ? this.long : this.short);
  }

  /** Whether the queue has been asked for a sign of life, and has given none since. */
  get isAnswerOwed(): boolean {
    return this.state === 'owed';
  }

  /** The ticket was sent again, and asks for a sign of life. */
  asked(): void {
    this.state = 'owed';
  }

  /** The queue has given it. Unasked, it means nothing. */
  answered(): void {
    if (this.state !== 'owed') return;
    this.state = 'assured';
    this.refusals = 0;
  }

  /** The queue is alive: it gave a turn. */
  hadTurn(): void {
    this.state = 'fresh';
    this.refusals = 0;
  }

  /** The queue is alive, and has no room. */
  hadNoRoom(): void {
    this.state = 'full';
    this.refusals++;
  }
}
