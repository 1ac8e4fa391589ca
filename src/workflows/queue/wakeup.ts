import { condition, sleep } from '@temporalio/workflow';

/** What the queue waits for between two rounds: news, or a time. */
export class Wakeup {
  private hasNews = true; // messages that came before the first round

  /** When the timer fires. There is one timer, which is kept while it fires early enough: a timer for each wait would fill the history. */
  private ringsAtMs = Number.POSITIVE_INFINITY;
  private hasRung = false;

  readonly wake = () => {
    this.hasNews = true;
  };

  /** A round begins, which takes all news into account that has come so far. */
  beginRound(): void {
    this.hasNews = false;
  }

  /** Waits for news. @returns `false` if none has come within this time */
  news(withinMs: number): Promise<boolean> {
    return condition(() => this.hasNews, withinMs);
  }

  /** Waits for news, but no longer than until then. */
  newsOr(dueMs: number): Promise<void> {
    this.setTimer(dueMs);
    return condition(() => this.hasNews || this.hasRung);
  }

  private setTimer(dueMs: number): void {
    this.hasRung = false;
    if (dueMs >= this.ringsAtMs) return;
    this.ringsAtMs = dueMs;
    void sleep(Math.max(1, dueMs - Date.now())).then(() => {
      if (this.ringsAtMs !== dueMs) return; // an earlier timer has replaced this one
      this.ringsAtMs = Number.POSITIVE_INFINITY;
      this.hasRung = true;
    });
  }
}
