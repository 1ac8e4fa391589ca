/**
 * Bad input was given to this library. Thrown before anything was sent to the server; the message says what was
 * expected and what came. In Workflow code it arrives as an `ApplicationFailure` of the same type name.
 */
export class InvalidOptionsError extends TypeError {
  override readonly name = 'InvalidOptionsError';
}

/** Refuses a value: the one way in which this library says "expected this, got that". */
export function refuse(what: string, expected: string, actual: unknown): never {
  throw new InvalidOptionsError(`${what}: expected ${expected}, got ${show(actual)}`);
}

const SHOWN_LENGTH = 120;

/** A value as an error message shows it: short, and as its writer wrote it. */
export function show(value: unknown): string {
  // JSON has no NaN, Infinity, undefined, functions or bigints: those show as themselves.
  const text =
    typeof value === 'string' || (typeof value === 'object' && value !== null) ? JSON.stringify(value) : String(value);
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}… (${text.length} characters)` : text;
}
