/** The server takes 400 bytes of summary; this many characters fit in any script. */
const MAX_LENGTH = 90;

/** A permit in one line, for the Web UI. */
export function permitSummary(holder: string, purpose: string | undefined): string {
  const text = purpose ? `${purpose} (${holder})` : `held by ${holder}`;
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text;
}
