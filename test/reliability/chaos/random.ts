/** A seeded source of luck: the same seed, the same numbers. Mulberry32 over an FNV-1a hash of the seed. */
export class Luck {
  private state: number;

  constructor(seed: string) {
    let hash = 0x811c9dc5;
    for (const character of seed) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
    this.state = hash >>> 0;
  }

  /** A number in [0, 1). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least);
  }

  whole(least: number, most: number): number {
    return Math.floor(this.between(least, most + 1));
  }

  of<T>(items: readonly T[]): T {
    return items[this.whole(0, items.length - 1)] as T;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  shuffled<T>(items: readonly T[]): T[] {
    const shuffled = [...items];
    for (let end = shuffled.length - 1; end > 0; end--) {
      const other = this.whole(0, end);
      [shuffled[end], shuffled[other]] = [shuffled[other] as T, shuffled[end] as T];
    }
    return shuffled;
  }

  /** How long a holder works: three of ten for two to three leases, the others up to 1.2 s; in milliseconds. */
  holdMs(leaseMs: number): number {
    return this.chance(0.3) ? this.between(2, 3) * leaseMs : this.between(100, 1_200);
  }
}
