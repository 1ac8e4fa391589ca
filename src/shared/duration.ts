import type { Duration } from '@temporalio/common';

/** The units of a {@link Duration}, with all their names. A year has 365.25 days. */
const UNITS: readonly [names: string, ms: number][] = [
  ['ms msec msecs millisecond milliseconds', 1],
  ['s sec secs second seconds', 1_000],
  ['m min mins minute minutes', 60_000],
  ['h hr hrs hour hours', 3_600_000],
  ['d day days', 86_400_000],
  ['w week weeks', 7 * 86_400_000],
  ['y yr yrs year years', 365.25 * 86_400_000],
];

const MS = new Map(UNITS.flatMap(([names, ms]) => names.split(' ').map((name) => [name, ms] as const)));

/** No duration is longer, and a pattern takes long for a text without a limit. */
const MAX_LENGTH = 100;

/**
 * Reads a duration as the SDK does. The SDK exports the type but not its reader; a test compares the two.
 *
 * @throws TypeError when it is none
 */
export function msToNumber(value: Duration): number {
  if (typeof value === 'number') return value;
  const ms = typeof value === 'string' && value.length <= MAX_LENGTH ? parse(value) : Number.NaN;
  if (Number.isNaN(ms)) throw new TypeError(`Expected a duration such as "30s", got ${value}`);
  return ms;
}

function parse(text: string): number {
  const [, amount, unit] = /^(-?\d*\.?\d+) *([a-z]*)$/i.exec(text) ?? [];
  return Number(amount) * (MS.get(unit?.toLowerCase() || 'ms') ?? Number.NaN);
}
