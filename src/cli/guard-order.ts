/** An order to the guard. It replaces the one before. Times are {@link clockMs}. */
export interface GuardOrder {
  /** The process group to end. */
  group: number;
  /** When to send TERM, unless a new order comes. Absent while this process sends it itself. */
  termAtMs?: number;
  /** When to send KILL. */
  killAtMs: number;
  /** The time between TERM and KILL when this process is dead. */
  graceMs: number;
}

/** A clock that all processes of a machine share, in milliseconds. Nobody can set it, and it goes on while a process is stopped. */
export function clockMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
