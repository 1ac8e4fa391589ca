// Anybody may have written what the server and the workers answer. These readers take what is of the right type, and leave
// out the rest: an operator sees what there is, and not an error instead.

/** The latest time that a `Date` can have. */
const MAX_DATE_MS = 8.64e15;

export function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** `undefined` for all but a string that is not empty. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Epoch milliseconds that a `Date` can have. */
export function timeOf(value: unknown): number | undefined {
  const ms = numberOf(value);
  return ms !== undefined && Math.abs(ms) <= MAX_DATE_MS ? ms : undefined;
}
