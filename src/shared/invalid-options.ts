/**
 * The caller has given bad input. It is thrown before anything goes to the server. The message says what was expected and what
 * came. In Workflow code it arrives as an `ApplicationFailure` of the same type name.
 */
export class InvalidOptionsError extends TypeError {
  override readonly name = 'InvalidOptionsError';
}

/** Refuses a value. All checks say "expected this, got that" by this function. */
export function refuse(what: string, expected: string, actual: unknown): never {
  throw new InvalidOptionsError(`${what}: expected ${expected}, got ${show(actual)}`);
}

const SHOWN_LENGTH = 120;

/** A value for an error message: short, and as its author wrote it. */
export function show(value: unknown): string {
  // JSON has no NaN, Infinity, undefined, functions or bigints: those show as themselves.
  const text =
    typeof value === 'string' || (typeof value === 'object' && value !== null) ? JSON.stringify(value) : String(value);
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}… (${text.length} characters)` : text;
}
