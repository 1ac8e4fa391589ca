interface Told {
  readonly all: Set<() => void>;
  listen(): void;
}

const toldOf = new WeakMap<AbortSignal, Told>();

/**
 * Calls `tell` when the signal aborts; at once if it has. Thousands of calls may share a caller's signal, for as long as its process runs: it
 * has one listener for all of them, and none when all are over. (Node's own listeners cost time for each other one, and what
 * `AbortSignal.any` makes of a signal stays with that signal for ever.)
 *
 * @returns what stops it
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
