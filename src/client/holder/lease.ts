import { monotonicMs } from '../clock';

/** The last part of a lease is left to the holder, to stop what it does. */
const NOTICE_PART = 10;

/**
 * What a holder knows of its lease. It counts from before the claim or renewal was sent, so it ends no later here than at
 * the server.
 */
export class Lease {
  private endsAtMs: number;
  private renewedAtMs: number;

  /** @param sentMs when the claim was sent, on the clock that `nowMs` reads */
  constructor(
    readonly leaseMs: number,
    sentMs: number,
    private readonly nowMs: () => number = monotonicMs,
  ) {
    this.renewedAtMs = sentMs;
    this.endsAtMs = sentMs + leaseMs;
  }

  /** A renewal sent then got through. */
  renewed(sentMs: number): void {
    this.renewedAtMs = Math.max(this.renewedAtMs, sentMs);
    this.endsAtMs = this.renewedAtMs + this.leaseMs;
  }

  /** How long until it ends. */
  get leftMs(): number {
    return this.endsAtMs - this.nowMs();
  }

  /** How long until the holder must be told that it ends: a tenth of the lease before. */
  get safeMs(): number {
    return this.leftMs - this.noticeMs;
  }

  /** How long before its end that is. */
  get noticeMs(): number {
    return this.leaseMs / NOTICE_PART;
  }

  /** How long until the next renewal is due. */
  dueMs(renewEveryMs: number): number {
    return this.renewedAtMs + renewEveryMs - this.nowMs();
  }
}
