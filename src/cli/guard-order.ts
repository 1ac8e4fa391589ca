/** What the guard is to do; each order takes the place of the one before. Times are {@link clockMs}. */
export interface GuardOrder {
  /** The process group that it ends, */
  group: number;
  /** by TERM from then on, unless it hears anew; absent while this process does that itself, */
  termAtMs?: number;
  /** and by KILL from then on. */
  killAtMs: number;
  /** How long the group has between the two when this process is dead. */
  graceMs: number;
}

/** A clock that all processes of a machine share, in milliseconds. Nobody can set it, and a stopped process doesn't stop it. */
export function clockMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
