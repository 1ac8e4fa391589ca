/** The last tenth of a lease is the holder's time to stop its work. */
export function noticeMsOf(leaseMs: number): number {
  return leaseMs / 10;
}

/**
 * A lease as its holder counts it: from before the claim or renewal was sent. So it ends here no later than at the server. The server also
 * ends a permit at its `maxHold`, whatever was renewed.
 */
export class Lease {
  private endsAtMs: number;
  private renewedAtMs: number;
  /** When the server ends the permit, whatever is renewed. */
  private readonly lastMs: number;

  /**
   * @param sentMs when the claim was sent, on the clock that `nowMs` reads: one that never jumps, outside Workflows
   * @param maxHoldMs infinite for an adopted permit: its reference does not contain it
   */
  constructor(
    readonly leaseMs: number,
    private readonly sentMs: number,
    maxHoldMs: number,
    private readonly nowMs: () => number,
  ) {
    this.renewedAtMs = sentMs;
    this.lastMs = sentMs + maxHoldMs;
    this.endsAtMs = sentMs + leaseMs;
  }

  /** A renewal has got through; `sentMs` is when it was sent. It never brings the end closer, here as at the server. */
  renewed(sentMs: number, leaseMs = this.leaseMs): void {
    this.renewedAtMs = Math.max(this.renewedAtMs, sentMs);
    this.endsAtMs = Math.min(this.lastMs, Math.max(this.endsAtMs, sentMs + leaseMs));
  }

  /** Whether no renewal makes the lease longer. */
  get isLongest(): boolean {
    return this.endsAtMs >= this.lastMs;
  }

  /** The time since the claim, or the adoption. */
  get heldMs(): number {
    return this.nowMs() - this.sentMs;
  }

  /** The time until the lease ends. */
  get leftMs(): number {
    return this.endsAtMs - this.nowMs();
  }

  /** The time until the holder must stop: a tenth of the lease before its end. */
  get safeMs(): number {
    return this.leftMs - this.noticeMs;
  }

  /** The last tenth of the lease, in which the holder must stop. */
  get noticeMs(): number {
    return noticeMsOf(this.leaseMs);
  }

  /** The time until the next renewal is due. */
  dueMs(renewEveryMs: number): number {
    return this.renewedAtMs + renewEveryMs - this.nowMs();
  }
}

export function earliest(dates: readonly Date[]): Date {
  return new Date(Math.min(...dates.map(Number)));
}
