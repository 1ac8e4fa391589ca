import { CommanderError } from 'commander';

/** A signal asked this process to end. Thrown through the program so that every `finally` runs on its way out. */
class Interrupted extends Error {
  constructor(readonly exitCode: number) {
    super('Interrupted');
  }
}

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/**
 * Runs a script. What `main` resolves to is the exit code; an error is told in its message alone, without a stack, and
 * exits 1. The first Ctrl-C (or SIGTERM, SIGHUP) aborts `interrupt`, so that `main` can clean up; a second one ends at once.
 */
export function runMain(main: (interrupt: AbortSignal) => Promise<number>): void {
  main(catchInterrupts()).then(
    (code) => {
      process.exitCode = code;
    },
    (error: unknown) => {
      process.exitCode = exitCodeOf(error);
      // commander has printed its own errors already.
      if (!(error instanceof Interrupted || error instanceof CommanderError)) console.error(messageOf(error));
    },
  );
}

/** Resolves once `signal` aborts. */
export async function untilAborted(signal: AbortSignal): Promise<undefined> {
  await aborted(signal).catch(() => undefined);
}

/** Rejects with the signal's reason once it aborts. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** An error's message and those of its causes: the SDK's outer messages say what failed, the inner ones why. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}

function exitCodeOf(error: unknown): number {
  return error instanceof Interrupted || error instanceof CommanderError ? error.exitCode : 1;
}

function catchInterrupts(): AbortSignal {
  const controller = new AbortController();
  for (const [name, code] of Object.entries(EXIT_CODES)) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(code);
      controller.abort(new Interrupted(code));
    });
  }
  return controller.signal;
}
