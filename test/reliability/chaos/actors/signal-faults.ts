/** Signals of the pools with this in their name are dropped, doubled and reordered. A server does not do that: it keeps what it took. */
export const FLAKY = 'flaky';

/** The header by which the history of a signal's sender tells what was done to it. */
export const CHAOS_HEADER = 'chaos';

/** Where dropped signals go: nobody has this ID. So the history still tells what was sent. */
export const NOWHERE = 'chaos-dropped';

export type SignalFault = 'signal-dropped' | 'signal-doubled' | 'signal-delayed';

/** What becomes of a signal; `undefined`: nothing. One that is delayed comes after later ones. */
export function signalFault(random: number): SignalFault | undefined {
  if (random < 0.02) return 'signal-dropped';
  if (random < 0.06) return 'signal-doubled';
  if (random < 0.11) return 'signal-delayed';
  return undefined;
}
