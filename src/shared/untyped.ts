// Checks of values that another version, another language or a person has written.

/** The latest time that a `Date` can have. */
export const MAX_TIME_MS = 8.64e15;

export function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function isCount(value: unknown, most: number, least = 1): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}

export function isNumber(value: unknown, least: number, most: number): value is number {
  return typeof value === 'number' && value >= least && value <= most;
}
