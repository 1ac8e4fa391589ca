import { setImmediate as turnOfTheLoop } from 'node:timers/promises';

/** A clock on which time passes only when nothing else is left to do. For pure code that waits. */
export class FakeClock {
  nowMs = 0;
  private timers: { atMs: number; ring: () => void }[] = [];

  async sleep(ms: number): Promise<void> {
    await new Promise<void>((ring) => this.timers.push({ atMs: this.nowMs + ms, ring }));
  }

  /** Lets time pass until `work` is done. Fails where it waits for something that no timer brings. */
  async run<T>(work: Promise<T>): Promise<T> {
    let done = false;
    const settled = work.finally(() => {
      done = true;
    });
    settled.catch(() => undefined); // returned below
    for (;;) {
      await turnOfTheLoop();
      if (done) return await settled;
      this.timers.sort((a, b) => a.atMs - b.atMs);
      const next = this.timers.shift();
      if (!next || next.atMs === Number.POSITIVE_INFINITY) throw new Error('nothing is left that could happen');
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.ring();
    }
  }
}
