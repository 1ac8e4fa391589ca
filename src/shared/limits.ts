// Numbers that several sides must agree on. The dashboard's page reads them too, so this file imports nothing.

/** Temporal's default priority, the middle of its five. */
export const DEFAULT_PRIORITY_KEY = 3;

/** The longest reason of a revocation or an override, in characters. */
export const MAX_REASON_LENGTH = 1_000;
