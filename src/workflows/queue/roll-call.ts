import type { Ticket } from '../../shared/protocol';
import { waiterKey } from '../../shared/request';

/** A waiter that has sent no message for this long may be gone: the queue is not notified when a waiter's Workflow is terminated or times out. */
export const SILENT_MS = 30_000;

/**
 * A waiter is asked at most each half-minute until it has waited for this long, and then ever more rarely: each question writes four events
 * into the history of a Workflow that waits, and takes one of its 10,000 signals. So ten days in a full queue are 1,100 questions.
 */
const OFTEN_MS = 2 * 3_600_000;

/** After a search for waiters to ask has found none, the next search comes no sooner than this. */
const NOBODY_MS = 1_000;

/**
 * Asks the waiters that have sent no message for a while whether they are still there, before the queue tells a caller that it is full.
 * A round asks each of them once, the longest silent first. If no caller is to be refused, no waiter is asked.
 *
 *     resting --begin--> asking --the last answer--> resting, for half a minute
 */
export class RollCall {
  /** When each waiter last sent a message, in this run of the queue. */
  private readonly heardAtMs = new Map<string, number>();
  /** One ticket of each waiter that is to be asked in this round. */
  private readonly toAsk: Ticket[] = [];
  private answersDue = 0;
  private beganAtMs = 0;
  private notBeforeMs: number;

  /** @param lastMs when the last completed round began, maybe in an earlier run of the queue */
  constructor(private lastMs = 0) {
    this.notBeforeMs = lastMs + SILENT_MS;
  }

  /** When the last round began, which the next run of the queue is told. */
  get calledAtMs(): number | undefined {
    return this.lastMs || undefined;
  }

  /** The waiter has sent its ticket. */
  heard(ticket: Ticket, nowMs: number): void {
    this.heardAtMs.set(waiterKey(ticket), nowMs);
  }

  /**
   * Begins a round if it is time for one and there are waiters to ask.
   *
   * @param waiting the tickets without a turn
   * @returns whether a round is under way
   */
  begin(waiting: Iterable<Ticket>, nowMs: number): boolean {
    if (this.isUnderWay || nowMs < this.notBeforeMs) return this.isUnderWay;
    const silent = new Map<string, Ticket>();
    for (const ticket of waiting) if (this.isToAsk(ticket, nowMs)) silent.set(waiterKey(ticket), ticket);
    this.toAsk.push(...[...silent.values()].sort((a, b) => this.lastWordMs(a) - this.lastWordMs(b)));
    this.beganAtMs = nowMs;
    this.notBeforeMs = nowMs + NOBODY_MS;
    return this.isUnderWay;
  }

  /** The waiters to ask now. */
  *questions(): Generator<Ticket> {
    for (let ticket = this.toAsk.shift(); ticket; ticket = this.toAsk.shift()) {
      this.answersDue++;
      yield ticket;
    }
  }

  /** A waiter that was asked is there, or is gone. */
  answered(ticket: Ticket, isThere: boolean, nowMs: number): void {
    if (isThere) this.heard(ticket, nowMs);
    this.answersDue--;
    if (this.isUnderWay) return;
    this.lastMs = this.beganAtMs;
    this.notBeforeMs = this.lastMs + SILENT_MS;
  }

  private get isUnderWay(): boolean {
    return this.answersDue > 0 || this.toAsk.length > 0;
  }

  private isToAsk(ticket: Ticket, nowMs: number): boolean {
    const sinceMs = Math.min(ticket.sinceMs, nowMs);
    const doublings = Math.ceil(Math.log2(Math.max(1, (nowMs - sinceMs) / OFTEN_MS)));
    const everyMs = SILENT_MS * 2 ** doublings;
    const heardAtMs = this.heardAtMs.get(waiterKey(ticket));
    if (heardAtMs !== undefined) return nowMs - heardAtMs >= everyMs;
    // Only the run of the queue that has asked a waiter knows when. So each waiter has fixed times, which every run can compute.
    const timesUntil = (ms: number) => Math.floor((ms - sinceMs) / everyMs);
    return timesUntil(nowMs) > Math.max(0, timesUntil(this.lastMs));
  }

  private lastWordMs(ticket: Ticket): number {
    return this.heardAtMs.get(waiterKey(ticket)) ?? ticket.sinceMs;
  }
}
