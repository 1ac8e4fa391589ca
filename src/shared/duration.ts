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

/** No valid duration is longer, and matching a pattern against a text of any length may take long. */
const MAX_LENGTH = 100;

/**
 * Reads a duration as the SDK does. The SDK exports the type but not its reader; a test compares the two.
 *
 * @throws TypeError if the value is no duration
 */
export function msToNumber(value: Duration): number {
  if (typeof value === 'number') return value;
  const ms = typeof value === 'string' && value.length <= MAX_LENGTH ? parse(value) : Number.NaN;
  if (Number.isNaN(ms)) throw new TypeError(`Expected a duration such as "30s", got ${value}`);
  return ms;
}

/** Whether a text is a number alone. */
export function isUnitless(text: string): boolean {
  return /^\s*-?[\d.]+\s*$/.test(text);
}

function parse(text: string): number {
  const [, amount, unit] = /^(-?\d*\.?\d+) *([a-z]*)$/i.exec(text) ?? [];
  return Number(amount) * (MS.get(unit?.toLowerCase() || 'ms') ?? Number.NaN);
}

/** The greatest units first, as messages name them. */
const SHOWN_UNITS: readonly [name: string, ms: number][] = [
  ['day', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** A duration for a message: `"30 s"`, `"1.5 s"`, `"18 h 15 min"`, `"5 days"`. Two units at most; what is left over is cut off. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${ms / 1_000} s`;
  const parts: string[] = [];
  let leftMs = ms;
  for (const [name, unitMs] of SHOWN_UNITS) {
    const count = Math.floor(leftMs / unitMs);
    leftMs -= count * unitMs;
    if (count > 0) parts.push(`${count} ${name === 'day' && count > 1 ? 'days' : name}`);
    else if (parts.length > 0) break; // "5 days", and not "5 days 3 s"
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}
