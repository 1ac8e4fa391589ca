/** What the SDK throws says what failed; its cause, why. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${messageOf(error.cause)}` : error.message;
}
