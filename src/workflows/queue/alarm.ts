import { sleep } from '@temporalio/workflow';

/** One timer, left alone while it rings early enough: starting one for each wake would fill the history. */
export class Alarm {
  private ringsAtMs = Number.POSITIVE_INFINITY;
  private rung = false;

  setFor(dueMs: number): void {
    this.rung = false;
    if (dueMs >= this.ringsAtMs) return;
    this.ringsAtMs = dueMs;
    void sleep(Math.max(1, dueMs - Date.now())).then(() => {
      if (this.ringsAtMs !== dueMs) return; // a later one was replaced by an earlier one
      this.ringsAtMs = Number.POSITIVE_INFINITY;
      this.rung = true;
    });
  }

  hasRung(): boolean {
    return this.rung;
  }
}
