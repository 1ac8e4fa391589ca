// Anybody may have written the values that the server and the workers return. These readers take those of the right type, and
// leave out the rest, so that an operator sees the pool and no error.

/** The latest time that a `Date` can have. */
const MAX_DATE_MS = 8.64e15;

export function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A non-empty string, with a replacement for half a character, of which no link can be made; `undefined` for anything else. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.replace(/\p{Cs}/gu, '\ufffd') : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Epoch milliseconds that a `Date` can have. */
export function timeOf(value: unknown): number | undefined {
  const ms = numberOf(value);
  return ms !== undefined && Math.abs(ms) <= MAX_DATE_MS ? ms : undefined;
}
