import { setImmediate as turn } from 'node:timers/promises';

/** What a run of the simulation is made of: all by chance, and the chance by the seed. */
export interface Chances {
  /** That the answer to a request is lost, although it was carried out. */
  lostAnswer: number;
  /** That a message takes up to two seconds, and so is overtaken. */
  lateMessage: number;
}

/** A clock on which time passes when nothing else is left to do, chance that the seed repeats, and what has happened so far. */
export class World {
  nowMs = 0;
  readonly story: string[] = [];
  /** While faults go on. */
  isFaulty = true;
  private readonly timers: { atMs: number; ring: () => void }[] = [];
  private state: number;

  constructor(
    readonly seed: number,
    private readonly chances: Chances,
  ) {
    this.state = (seed * 2_654_435_761) >>> 0;
  }

  /** A number in [0, 1). Mulberry32. */
  readonly random = (): number => {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };

  /** A whole number from `least` to `most`. */
  integer(least: number, most: number): number {
    return least + Math.floor(this.random() * (most - least + 1));
  }

  pick<T>(items: readonly T[]): T {
    return items[this.integer(0, items.length - 1)] as T;
  }

  isLost(): boolean {
    return this.isFaulty && this.random() < this.chances.lostAnswer;
  }

  /** A message's way to the server, or from it. */
  async hop(): Promise<void> {
    const isLate = this.isFaulty && this.random() < this.chances.lateMessage;
    await this.sleep(isLate ? this.integer(100, 2_000) : this.integer(1, 30));
  }

  tell(what: string): void {
    this.story.push(`${(this.nowMs / 1_000).toFixed(3)} ${what}`);
  }

  at(atMs: number, ring: () => void): void {
    let [low, high] = [0, this.timers.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      // The next one stands last; of one moment, the one that was set first.
      if ((this.timers[middle]?.atMs ?? 0) > atMs) low = middle + 1;
      else high = middle;
    }
    this.timers.splice(low, 0, { atMs, ring });
  }

  async sleep(ms: number): Promise<void> {
    if (ms < Number.POSITIVE_INFINITY) await new Promise<void>((ring) => this.at(this.nowMs + Math.max(0, ms), ring));
    else await new Promise<void>(() => undefined);
  }

  /** Lets time pass until `work` is done. @throws when it is not done by then, or waits for what no timer brings */
  async run<T>(work: Promise<T>, untilMs: number): Promise<T> {
    let isDone = false;
    const settled = work.finally(() => {
      isDone = true;
    });
    settled.catch(() => undefined); // returned below
    for (;;) {
      await turn();
      if (isDone) return await settled;
      const next = this.timers.pop();
      if (!next) throw new Error('nothing is left that could happen');
      if (next.atMs > untilMs) throw new Error(`it is not over after ${untilMs / 1_000} s`);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.ring();
    }
  }
}
