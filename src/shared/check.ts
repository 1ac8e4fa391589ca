import type { Duration } from '@temporalio/common';
import { isUnitless, msToNumber } from './duration';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** The longest duration that an option may have: deadlines stay exact, and the server accepts the timer. */
export const MAX_DURATION_MS = 10 * 365 * DAY_MS;

/** Checks one option, and returns it in the form in which the code uses it. @throws InvalidOptionsError */
export type Check<T> = (value: unknown, what: string) => T;

/** What the checks of a table return. An absent option stays `undefined`, so that its reader can fill in the default. */
export type Checked<Table extends Record<string, Check<unknown>>> = {
  [Name in keyof Table]: ReturnType<Table[Name]> | undefined;
};

/** The checks of an interface's options: one for each, so that a new option can't be forgotten. */
export type Checks<Options> = { [Name in keyof Required<Options>]: Check<unknown> };

/**
 * Reads options with a table of checks. An unknown name is an error, because a misspelled option would do nothing.
 * @throws InvalidOptionsError
 */
export function checkOptions<Table extends Record<string, Check<unknown>>>(
  options: unknown,
  table: Table,
  what = 'options',
): Checked<Table> {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) refuse(what, 'an object', options);
  const given = options as Record<string, unknown>;
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined && !Object.hasOwn(table, name)) refuseUnknown(name, Object.keys(table));
  }
  const prefix = what === 'options' ? '' : `${what}.`;
  const checked = Object.entries(table).map(([name, check]) => [
    name,
    given[name] === undefined ? undefined : check(given[name], prefix + name),
  ]);
  return Object.fromEntries(checked) as Checked<Table>;
}

/** A misspelled name would do nothing. */
export function refuseUnknown(name: string, known: readonly string[]): never {
  const [nearest] = [...known].sort((a, b) => distance(name, a) - distance(name, b));
  const hint =
    nearest !== undefined && distance(name, nearest) <= Math.max(2, name.length / 3)
      ? `Did you mean ${show(nearest)}?`
      : `Known: ${known.join(', ')}.`;
  throw new InvalidOptionsError(`Unknown option ${show(name)}. ${hint}`);
}

/** How many letters must be inserted, deleted or replaced (Levenshtein), ignoring case. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a.toLowerCase()].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b.toLowerCase()].entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

export const boolean: Check<boolean> = (value, what) =>
  typeof value === 'boolean' ? value : refuse(what, 'a boolean', value);

export const nonEmpty: Check<string> = (value, what) =>
  typeof value === 'string' && value !== '' ? value : refuse(what, 'a non-empty string', value);

/** A string of at most this many characters. */
export function textWithin(most: number): Check<string> {
  return (value, what) =>
    typeof value === 'string' && value.length <= most
      ? value
      : refuse(what, `a string of at most ${most} characters`, value);
}

/** A whole number; without `most`, any number that is exact. */
export function wholeFrom(least: number, most = Number.MAX_SAFE_INTEGER): Check<number> {
  const upTo = most === Number.MAX_SAFE_INTEGER ? '' : ` to ${most}`;
  return (value, what) =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most
      ? (value as number)
      : refuse(what, `a whole number from ${least}${upTo}`, value);
}

/**
 * A duration of at least this many milliseconds. Returns whole milliseconds, rounded up. Refuses a string without a unit: the SDK would
 * read milliseconds, which no user means.
 */
export function durationFrom(leastMs: number): Check<number> {
  return (value, what) => {
    if (typeof value === 'string' && isUnitless(value)) refuse(what, 'a duration with its unit, such as "30s"', value);
    const expected = `a duration of ${leastMs} ms or more, as a number of milliseconds or a string like "30s"`;
    let ms = Number.NaN;
    try {
      ms = Math.ceil(msToNumber(value as Duration));
    } catch {
      // Refused below.
    }
    return ms >= leastMs && ms <= MAX_DURATION_MS ? ms : refuse(what, expected, value);
  };
}

/** A duration in whole milliseconds; `undefined` when absent, so that the caller can fill in its default. */
export function durationMs(what: string, value: Duration | undefined, leastMs: number): number | undefined {
  return value === undefined ? undefined : durationFrom(leastMs)(value, what);
}

/** Returns the value unchecked: the code that uses it checks it. */
export function asIs<T>(): Check<T> {
  return (value) => value as T;
}

/**
 * The caller has given bad input. This error is thrown before any call to the server. The message says what was expected and what
 * was given. In Workflow code it is an `ApplicationFailure` of the same type name.
 */
export class InvalidOptionsError extends TypeError {
  override readonly name = 'InvalidOptionsError';
}

/** Refuses a value. All checks use this function to say "expected this, got that". */
export function refuse(what: string, expected: string, actual: unknown): never {
  throw new InvalidOptionsError(`${what}: expected ${expected}, got ${show(actual)}`);
}

/** Refuses a value, and names only its kind: an object may be long or circular, or contain secrets. */
export function refuseKind(what: string, expected: string, actual: unknown): never {
  const kind = kindOf(actual);
  const isCopy = expected.split(/\W/).includes(kind.split(' ').at(-1) ?? '');
  const copy = isCopy ? ' of another copy of that class: `npm ls` shows which package is installed twice' : '';
  throw new InvalidOptionsError(`${what}: expected ${expected}, got ${kind}${copy}`);
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== 'object') return `a ${typeof value}`;
  const { constructor: { name = '' } = {} } = value;
  return name === 'Object' || name === '' ? 'an object' : `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`;
}

/** Checks the first argument, a function to call later, before anything is acquired or given up for it. */
export function checkFunction(fn: unknown, what = 'fn'): void {
  if (typeof fn !== 'function') refuseKind(what, 'a function as the first argument', fn);
}

/** Refuses an option that makes no sense together with another option. @param why a sentence without its full stop */
export function refuseBeside(what: string, other: string, why: string): never {
  throw new InvalidOptionsError(`${what} can't be combined with ${other}: ${why}.`);
}

/** Runs a check, and puts `prefix` in front of the message of its error. */
export function saying<T>(prefix: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof InvalidOptionsError)) throw error;
    throw new InvalidOptionsError(prefix + error.message);
  }
}

const SHOWN_LENGTH = 120;

/** A value for an error message: short, and in the form in which a user would write it. */
export function show(value: unknown): string {
  // JSON has no NaN, Infinity, undefined, functions or bigints: those show as themselves.
  const isJson = typeof value === 'string' || (typeof value === 'object' && value !== null);
  const text = isJson ? (jsonOf(value) ?? kindOf(value)) : String(value);
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}… (${text.length} characters)` : text;
}

/** `undefined` for a value that is circular, or contains a bigint. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}
