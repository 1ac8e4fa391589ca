interface Told {
  readonly all: Set<() => void>;
  listen(): void;
}

const toldOf = new WeakMap<AbortSignal, Told>();

/**
 * Calls `tell` when the signal aborts; at once if it has aborted already. Thousands of calls may share a caller's signal, for as long as its
 * process runs: the signal has one listener for all of them, and none when all are over. (The cost of adding one of Node's own listeners
 * grows with the number of listeners, and a signal keeps what `AbortSignal.any` makes of it for as long as it lives.)
 *
 * @returns a function that stops the listening
 */
export function onAbort(signal: AbortSignal, tell: () => void): () => void {
  if (signal.aborted) {
    tell();
    return () => undefined;
  }
  const told = toldOf.get(signal) ?? tellingAll(signal);
  const entry = () => tell(); // one `tell` may be given twice
  told.all.add(entry);
  if (told.all.size === 1) signal.addEventListener('abort', told.listen);
  return () => {
    if (told.all.delete(entry) && told.all.size === 0) signal.removeEventListener('abort', told.listen);
  };
}

function tellingAll(signal: AbortSignal): Told {
  const all = new Set<() => void>();
  const listen = () => {
    signal.removeEventListener('abort', listen);
    for (const tell of all) tell();
    all.clear();
  };
  const told = { all, listen };
  toldOf.set(signal, told);
  return told;
}
