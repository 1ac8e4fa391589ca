/** What a pool has seen of the line of its resource. */
export interface Others {
  /**
   * For each ticket of others that waits without a turn: how many permits its pool would hold with this one; 0 for an
   * acquirer of one permit.
   */
  readonly shares: readonly number[];
  /** Whether an operator leaves this slot in use. */
  isInUse(slot: string): boolean;
}

/** A permit is nearly ripe after this part of `reuseFor`: early enough to know by its end whether others wait. */
const NEARLY = 0.8;

/** An answer is of no use after this many times `reuseFor`. Above 1, so that short calls never wait for the next answer. */
const STALE = 1.25;

/**
 * When a pool looks whether others wait, and how many of its permits it then gives back. Pure.
 *
 * A permit is ripe when it has been held for `reuseFor`. One look serves all permits, and there is at most one each
 * `reuseFor`, and one more when a permit comes through the line.
 *
 * The rule is that of max-min fairness: an acquirer of one permit gets one back from every pool. Another pool gets one only if
 * it then has no more than this one had. Between two pools with five permits each, none moves; between one with two and one
 * with one, a permit goes back and forth; a pool without any gets one from whichever pool has one.
 */
export class Turnover {
  private askedMs = Number.NEGATIVE_INFINITY;
  /** When the last look that is over began. */
  private knownMs = Number.NEGATIVE_INFINITY;
  private isUnderWay = false;
  private dues = 0;

  constructor(private readonly reuseForMs: number) {}

  get isLooking(): boolean {
    return this.isUnderWay;
  }

  /** When the present look, or the last one, began. */
  get lookedMs(): number {
    return this.askedMs;
  }

  isRipe(heldSinceMs: number, nowMs: number): boolean {
    return nowMs >= heldSinceMs + this.reuseForMs;
  }

  /** Whether the end of a call under this permit is the time to look. */
  isLookDue(heldSinceMs: number, nowMs: number): boolean {
    if (this.isUnderWay || nowMs < this.askedMs + this.reuseForMs) return false;
    return nowMs >= heldSinceMs + NEARLY * this.reuseForMs;
  }

  /** Whether a ripe permit is to wait for the answer of the look that is under way. */
  isStale(nowMs: number): boolean {
    return nowMs > this.knownMs + STALE * this.reuseForMs;
  }

  asked(nowMs: number): void {
    this.askedMs = nowMs;
    this.isUnderWay = true;
  }

  /**
   * @param others `undefined` when nobody has answered: then nobody can serve others either, so nothing goes back
   * @param holding how many permits the pool has, without those that it is giving back
   * @param releasing how many it is giving back: they are for those who wait, too
   */
  answered(others: Others | undefined, holding: number, releasing: number): void {
    this.isUnderWay = false;
    this.knownMs = this.askedMs;
    this.dues = others ? Math.max(0, owed(others.shares, holding + releasing) - releasing) : 0;
  }

  /** How many are to go back. */
  get owed(): number {
    return this.dues;
  }

  /** Takes one of those that go back; `false` when none does. */
  takeDue(): boolean {
    if (this.dues === 0) return false;
    this.dues--;
    return true;
  }
}

/** How many of `holding` permits a pool owes to others who wait for these shares. */
function owed(shares: readonly number[], holding: number): number {
  let left = holding;
  for (const share of [...shares].sort((a, b) => a - b)) {
    if (left === 0 || share > left) break;
    left--;
  }
  return holding - left;
}
