/** The server's limits for one run, less a reserve for a permit's other signals: adoption, release, a retry now and then. */
const MAX_EVENTS = 51_200 * 0.9;
export const MAX_SIGNALS = 10_000 * 0.9;

/** A signal, and the Workflow Task it causes: scheduled, started, completed. */
const EVENTS_A_SIGNAL = 4;
/** A timer started and fired, and its Workflow Task. */
const EVENTS_A_TIMER = 5;
/**
 * The most probes that a permit gets in a day. A queue with waiters asks each permit every four minutes whether it still runs, and
 * more often at first. The bound holds however often queues form and dissolve: a test simulates days of that.
 */
export const MAX_PROBES_A_DAY = 1_100;
const PROBES_A_MS = MAX_PROBES_A_DAY / (24 * 60 * 60_000);

/** Events in a Workflow for each renewal: a timer, a sent signal, and the Workflow Task that each of them causes. */
const HOLDER_EVENTS_A_RENEWAL = 10;

/** Whether a Workflow with a history of this length may go on waiting, and renewing what it keeps, for as long as it has so far. */
export function mayWaitOn(historyLength: number): boolean {
  return historyLength < MAX_EVENTS / 2;
}

/** The longest that a Workflow can renew these permits at once before its own run reaches the limit of events. In milliseconds. */
export function longestSetHoldMs(renewals: readonly (number | false)[]): number {
  const renewalsAMs = renewals.reduce<number>((sum, everyMs) => sum + (everyMs === false ? 0 : 1 / everyMs), 0);
  return Math.floor(MAX_EVENTS / HOLDER_EVENTS_A_RENEWAL / renewalsAMs);
}

/**
 * The longest that one permit can be held before its run, or that of the Workflow which renews it, reaches the server's
 * limits: 10,000 signals, of which each renewal is one, and 51,200 events. In milliseconds.
 *
 * | lease | renewed every | longest hold | in a Workflow |
 * |---|---|---|---|
 * | 3 s | 1 s | 1 h 57 min | 1 h 16 min |
 * | 10 s | 3.3 s | 6 h 23 min | 4 h 15 min |
 * | 30 s | 10 s | 18 h 15 min | 12 h 48 min |
 * | 1 min | 20 s | 34 h | 25 h |
 * | 10 min | 200 s | 5 d 20 h | 5 d 20 h |
 * | any | never | 8 d 4 h | 8 d 4 h |
 */
export function longestHoldMs(leaseMs: number, renewEveryMs: number | false, inWorkflow = false): number {
  if (renewEveryMs === false) {
    return Math.floor(Math.min(MAX_SIGNALS, MAX_EVENTS / EVENTS_A_SIGNAL) / PROBES_A_MS);
  }
  const signalsAMs = 1 / renewEveryMs + PROBES_A_MS;
  // A renewal does not reset the timer. When the timer fires, the last renewal was up to `renewEveryMs` ago.
  const timersAMs = 1 / (leaseMs - renewEveryMs);
  const eventsAMs = EVENTS_A_SIGNAL * signalsAMs + EVENTS_A_TIMER * timersAMs;
  const holderMs = inWorkflow ? (MAX_EVENTS / HOLDER_EVENTS_A_RENEWAL) * renewEveryMs : Number.POSITIVE_INFINITY;
  return Math.floor(Math.min(MAX_SIGNALS / signalsAMs, MAX_EVENTS / eventsAMs, holderMs));
}
