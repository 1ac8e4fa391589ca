import { type BackoffPolicy, backoffMs } from './backoff';

/** How an acquirer goes on that the queue had no room for, or whose message it could not take. */
const QUEUE_FULL: BackoffPolicy = { baseMs: 1_000, maxMs: 30_000, factor: 2, jitter: 0.5 };

/** How a delay goes that does not grow. */
function steady(baseMs: number, jitter: number): BackoffPolicy {
  return { baseMs, maxMs: baseMs, factor: 1, jitter };
}

/** A queue is slow that takes so long to take a ticket, or longer. */
const SLOW_MS = 1_000;

/**
 * A slow queue that took 3 s to take a ticket is asked about a minute later. It takes tickets one after the other, so 10,000 that
 * came at once ask over ten times as long as they took to line up, and what they ask is a small part of what the queue can bear.
 */
const PATIENCE = 20;

/** Rounds of own tries at a stuck queue before it backs off, at most. */
const MAX_FAST_ROUNDS = 3;

/** The longest delays: of one that the queue has answered, and of one behind a stuck queue. */
const LONGEST_ASSURED_MS = 4 * 60 * 60_000;
const LONGEST_STUCK_MS = 12 * 60 * 60_000;

/**
 * How long a parked acquirer waits for word from the queue before it checks again: `recheckAfter`, and 20 to 25 times that once
 * the queue has answered. While an answer is owed it is short again: the queue may be stuck, and then the acquirer has to look after
 * itself. After a rotation of its slots, or three rounds, it is 20 times that. The short delays are longer, up to 20 times, where the
 * queue was slow to take the ticket: then it has much to do, and questions would keep it from that.
 *
 * The long delays grow with the wait: they are as long as it, and half as long again where the queue is stuck. So a Workflow's history
 * grows by no more than 200 events a day (with the default of 30 s), and one that waits for months reaches no limit.
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
  /** Since when an answer is owed, and how many delays there were since. */
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

  /** Whether the queue has given no answer for so long that checks are rare. */
  get isBackedOff(): boolean {
    return this.owedFor > Math.min(this.rotation, MAX_FAST_ROUNDS);
  }

  /** Whether the queue has been asked for a sign of life, and has given none since. */
  get isAnswerOwed(): boolean {
    return this.state === 'owed';
  }

  /** @param tookMs how long the queue took to take the ticket. Until it answers, it has as long as its slowest time calls for. */
  linedUp(tookMs: number): void {
    if (tookMs < SLOW_MS) return;
    const mostMs = this.stuck.baseMs; // the queue may have gone since
    this.shortMs = Math.max(this.shortMs, Math.min(mostMs, PATIENCE * tookMs));
  }

  /** The ticket was sent again, and asks for a sign of life. @param tookMs as in {@link linedUp} */
  asked(tookMs = 0): void {
    this.linedUp(tookMs);
    if (this.state === 'owed') return;
    this.state = 'owed';
    this.owedSinceMs = undefined;
    this.owedFor = 0;
  }

  /** The queue has given it. Unasked, it means nothing. */
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

  /** The queue has no room, or its run takes no more messages. It has not got the ticket. */
  hadNoRoom(): void {
    this.state = 'full';
    this.refusals++;
  }
}
