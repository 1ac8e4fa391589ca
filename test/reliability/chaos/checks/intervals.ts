/** From, to; in milliseconds. */
export type Interval = readonly [number, number];

/** The same moments as disjoint intervals, in order. */
export function union(intervals: readonly Interval[]): Interval[] {
  const merged: [number, number][] = [];
  for (const [from, to] of [...intervals].sort((a, b) => a[0] - b[0])) {
    if (from >= to) continue;
    const last = merged.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

/** The moments of disjoint, ordered `intervals` that are in none of `others`, which are so too. */
export function without(intervals: readonly Interval[], others: readonly Interval[]): Interval[] {
  const left: Interval[] = [];
  for (const [from, to] of intervals) {
    let at = from;
    for (const [otherFrom, otherTo] of others) {
      if (otherTo <= at) continue;
      if (otherFrom >= to) break;
      if (otherFrom > at) left.push([at, otherFrom]);
      at = Math.max(at, otherTo);
    }
    if (at < to) left.push([at, to]);
  }
  return left;
}

/** How much all of them are, where they are disjoint. */
export function measure(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, [from, to]) => sum + to - from, 0);
}

/** How much of `within` the disjoint, ordered `intervals` cover. */
export function covered([from, to]: Interval, intervals: readonly Interval[]): number {
  let low = 0;
  for (let high = intervals.length; low < high; ) {
    const middle = (low + high) >> 1;
    if ((intervals[middle] as Interval)[1] <= from) low = middle + 1;
    else high = middle;
  }
  let sum = 0;
  for (let index = low; index < intervals.length; index++) {
    const [nextFrom, nextTo] = intervals[index] as Interval;
    if (nextFrom >= to) break;
    sum += Math.min(to, nextTo) - Math.max(from, nextFrom);
  }
  return sum;
}
