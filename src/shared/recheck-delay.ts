import { type BackoffPolicy, backoffMs } from './backoff';

/** The delays of an acquirer for which the queue had no room, or whose message the queue could not take. */
const QUEUE_FULL: BackoffPolicy = { baseMs: 1_000, maxMs: 30_000, factor: 2, jitter: 0.5 };

/** A delay that does not grow. */
function steady(baseMs: number, jitter: number): BackoffPolicy {
  return { baseMs, maxMs: baseMs, factor: 1, jitter };
}

/** A queue is slow if it takes this long, or longer, to take a ticket. */
const SLOW_MS = 1_000;

/**
 * A slow queue that took 3 s to take a ticket is asked after about a minute. It takes tickets one after the other, so 10,000 waiters that
 * came at once spread their questions over more than ten times the time that the queue took to enqueue them: a small part of its capacity.
 */
const PATIENCE = 20;

/** At a stuck queue, the most rounds of unasked tries before the acquirer backs off. */
const MAX_FAST_ROUNDS = 3;

/** The longest delays: of an acquirer that the queue has answered, and of an acquirer behind a stuck queue. */
const LONGEST_ASSURED_MS = 4 * 60 * 60_000;
const LONGEST_STUCK_MS = 12 * 60 * 60_000;

/**
 * How long a parked acquirer waits for a message from the queue before it probes again: `recheckAfter`, and 20 to 25 times that time once
 * the queue has answered. While an answer is owed, the delay is short again: the queue may be stuck, and then the acquirer has to find a
 * slot without it. After a rotation of its slots, or three rounds, the delay is 20 times as long. The short delays are up to 20 times as long
 * if the queue was slow to take the ticket: it is busy then, and questions would slow it down further.
 *
 * The long delays grow with the wait: they are as long as the wait so far, or half as long again if the queue is stuck. So a Workflow's
 * history grows by no more than 200 events a day (with the default of 30 s), and a Workflow that waits for months reaches no limit.
 *
 *     fresh --asked--> owed --answered--> assured: 20 to 25 times longer --asked--> owed
 *     any --turn--> fresh          any --no room--> full: 1 s to 30 s
 */
export class RecheckDelay {
  private readonly long: BackoffPolicy;
  private readonly stuck: BackoffPolicy;
  private state: 'fresh' | 'owed' | 'assured' | 'full' = 'fresh';
  private refusals = 0;
  private shortMs: number;
  /** Since when the queue has given no turn. */
  private sinceMs: number | undefined;
  /** Since when an answer is owed, and how many delays there have been since. */
  private owedSinceMs: number | undefined;
  private owedFor = 0;

  /** @param rotation how many rounds of tries go through all slots */
  constructor(
    private readonly recheckAfterMs: number,
    private readonly rotation = 1,
  ) {
    this.shortMs = recheckAfterMs;
    this.stuck = steady(recheckAfterMs * 20, 0.25);
    this.long = steady(recheckAfterMs * 25, 0.2);
  }

  /** @param random a number in [0, 1) @param nowMs the time, on any clock */
  nextMs(random: number, nowMs: number): number {
    this.sinceMs ??= nowMs;
    if (this.state === 'full') return backoffMs(this.refusals - 1, random, QUEUE_FULL);
    if (this.state === 'assured') {
      return Math.max(backoffMs(0, random, this.long), Math.min(LONGEST_ASSURED_MS, nowMs - this.sinceMs));
    }
    if (this.state !== 'owed') return this.nextShortMs(random);
    this.owedSinceMs ??= nowMs;
    this.owedFor++;
    if (!this.isBackedOff) return this.nextShortMs(random);
    return Math.max(backoffMs(0, random, this.stuck), Math.min(LONGEST_STUCK_MS, 1.5 * (nowMs - this.owedSinceMs)));
  }

  private nextShortMs(random: number): number {
    return backoffMs(0, random, steady(this.shortMs, 0.25));
  }

  /** Whether the queue has given no answer for so long that probes are rare. */
  get isBackedOff(): boolean {
    return this.owedFor > Math.min(this.rotation, MAX_FAST_ROUNDS);
  }

  /** Whether the queue has been asked for a sign of life, and has sent none since. */
  get isAnswerOwed(): boolean {
    return this.state === 'owed';
  }

  /** @param tookMs how long the queue took to take the ticket. The slowest such time decides how long it has to answer. */
  linedUp(tookMs: number): void {
    if (tookMs < SLOW_MS) return;
    const mostMs = this.stuck.baseMs; // the queue may have gone since
    this.shortMs = Math.max(this.shortMs, Math.min(mostMs, PATIENCE * tookMs));
  }

  /** The ticket was sent again, asking for a sign of life. @param tookMs as in {@link linedUp} */
  asked(tookMs = 0): void {
    this.linedUp(tookMs);
    if (this.state === 'owed') return;
    this.state = 'owed';
    this.owedSinceMs = undefined;
    this.owedFor = 0;
  }

  /** The queue has sent the sign of life. If none was asked for, it means nothing. */
  answered(): void {
    if (this.state !== 'owed') return;
    this.state = 'assured';
    this.refusals = 0;
    this.shortMs = this.recheckAfterMs;
  }

  /** The queue is alive: it gave a turn. */
  hadTurn(): void {
    this.state = 'fresh';
    this.sinceMs = undefined;
    this.refusals = 0;
  }

  /** The queue has no room, or its run takes no more messages: it does not have the ticket. */
  hadNoRoom(): void {
    this.state = 'full';
    this.refusals++;
  }
}
