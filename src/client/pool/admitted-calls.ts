import type { PooledPermit } from './pooled-permit';

/** A call that has a permit of its key, and waits for a permit of the resource. */
export interface AdmittedCall {
  readonly permit: PooledPermit;
  readonly priorityKey: number;
  /** When the call was made. */
  readonly sinceMs: number;
  /** Has the call give the key's permit back, unless it has a permit of the resource by now. */
  giveWay(): void;
}

/** The longest time between two looks at who waits elsewhere. */
const MOST_LOOK_MS = 240_000;

/**
 * The calls that have a permit of one key and wait for a permit of the resource. Decides when to look who waits for the key in other
 * processes, and which call gives its permit back to callers of higher priority. Pure.
 *
 *     admitted --callers of higher priority wait, no call gives way--> gives way --delete--> gone
 *        '--a permit of the resource, or the end of the wait: delete--> gone
 *
 * One call gives way at a time, so the first caller that waits is served before the next call gives way.
 */
export class AdmittedCalls {
  private readonly calls = new Set<AdmittedCall>();
  private givesWay: AdmittedCall | undefined;
  /** Since when there are such calls. */
  private sinceMs = 0;
  private nextLookMs = Number.POSITIVE_INFINITY;

  /** The highest priority (the smallest number) of the callers that wait elsewhere, as of the last look. Infinity if no caller waits. */
  private elsewhere = Number.POSITIVE_INFINITY;

  constructor(private readonly reuseForMs: number) {}

  /** When {@link isLookDue} may return `true`. */
  get dueMs(): number {
    return this.calls.size === 0 || this.givesWay ? Number.POSITIVE_INFINITY : this.nextLookMs;
  }

  add(call: AdmittedCall, nowMs: number): void {
    if (this.calls.size === 0) {
      this.sinceMs = nowMs;
      this.nextLookMs = nowMs + this.reuseForMs;
    }
    this.calls.add(call);
  }

  /** The call waits no longer, or has given way. @returns whether another call may give way now */
  delete(call: AdmittedCall): boolean {
    this.calls.delete(call);
    if (this.givesWay !== call) return false;
    this.givesWay = undefined;
    return true;
  }

  /** Whether it is time to look who waits elsewhere: after a while, and then ever more rarely. Returns `true` once for each look. */
  isLookDue(nowMs: number): boolean {
    if (nowMs < this.dueMs) return false;
    this.nextLookMs = nowMs + Math.min(MOST_LOOK_MS, Math.max(this.reuseForMs, (nowMs - this.sinceMs) / 4));
    return true;
  }

  /** @param priorities those of the callers that wait elsewhere */
  looked(priorities: readonly number[]): void {
    this.elsewhere = Math.min(...priorities);
  }

  /**
   * Of the calls that callers waiting for the key outrank, has the last one give way. For callers that wait elsewhere, only a ripe permit is
   * given up: any other permit would stay in this process.
   *
   * @param here the priority of the first caller that waits in this process; Infinity if no caller waits
   * @param isOwing whether the pool is to give permits to callers that wait elsewhere
   * @param isRipe whether the permit has been held for `reuseFor`
   */
  makeWay(here: number, isOwing: boolean, isRipe: (permit: PooledPermit) => boolean): void {
    if (this.givesWay) return;
    const elsewhere = isOwing ? this.elsewhere : Number.POSITIVE_INFINITY;
    const outranked = [...this.calls].filter(
      ({ permit, priorityKey }) => priorityKey > here || (priorityKey > elsewhere && isRipe(permit)),
    );
    const [last] = outranked.sort((a, b) => b.priorityKey - a.priorityKey || b.sinceMs - a.sinceMs);
    this.givesWay = last;
    last?.giveWay();
  }
}
