import type { PooledPermit } from './pooled-permit';

/** A call that has a permit of its key, and waits for one of the whole. */
export interface AdmittedCall {
  readonly permit: PooledPermit;
  readonly priorityKey: number;
  /** When the call was made. */
  readonly sinceMs: number;
  /** Has the call give the permit back, unless it has one of the whole by now. */
  giveWay(): void;
}

/** In the end the pool looks so rarely who waits elsewhere. */
const MOST_LOOK_MS = 240_000;

/**
 * The calls that have a permit of one key and wait for one of the whole, when to look who waits for the key elsewhere, and which call gives
 * its permit back to others of better priority. Pure.
 *
 *     admitted --others of better priority wait, no call gives way--> gives way --delete--> gone
 *        '--a permit of the whole, or the end of the wait: delete--> gone
 *
 * One call gives way at a time, so the first that waits is served before the next one does.
 */
export class AdmittedCalls {
  private readonly calls = new Set<AdmittedCall>();
  private givesWay: AdmittedCall | undefined;
  /** Since when there are such calls. */
  private sinceMs = 0;
  private nextLookMs = Number.POSITIVE_INFINITY;

  /** The best priority of those who wait elsewhere, as the last look has it. Infinity: nobody waits. */
  private elsewhere = Number.POSITIVE_INFINITY;

  constructor(private readonly reuseForMs: number) {}

  /** When {@link isLookDue} may say yes. */
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

  /** The call waits no longer, or has given way. @returns whether another one may give way now */
  delete(call: AdmittedCall): boolean {
    this.calls.delete(call);
    if (this.givesWay !== call) return false;
    this.givesWay = undefined;
    return true;
  }

  /** Whether it is time to look who waits elsewhere: after a while, and then ever more rarely. Said once for each look. */
  isLookDue(nowMs: number): boolean {
    if (nowMs < this.dueMs) return false;
    this.nextLookMs = nowMs + Math.min(MOST_LOOK_MS, Math.max(this.reuseForMs, (nowMs - this.sinceMs) / 4));
    return true;
  }

  /** @param priorities of those who wait elsewhere */
  looked(priorities: readonly number[]): void {
    this.elsewhere = Math.min(...priorities);
  }

  /**
   * Has the last call give way that those who wait for the key outrank. Those who wait elsewhere get a permit that is ripe: any other would
   * stay here.
   *
   * @param here the priority of the first that waits in this process; Infinity: nobody does
   * @param isOwing whether the pool is to give permits to those who wait elsewhere
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
