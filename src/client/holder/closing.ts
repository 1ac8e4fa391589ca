import { setMaxListeners } from 'node:events';
import { SemaphoreClosedError } from '../server/errors';
import { onAbort } from '../server/on-abort';
import type { Server } from '../server/server';
import type { Permit } from './permit';

/**
 * What closing a `SemaphoreClient` ends, gives back and waits for.
 *
 *     open --close()--> closing: waiters are refused, permits that were handed out go back --nothing is under way--> closed
 */
export class Closing {
  /** Aborts when the client is closed, with a `SemaphoreClosedError`. */
  private readonly closed = new AbortController();
  private closing: Promise<void> | undefined;
  /** Permits that their holders release themselves: those of `acquire`, not those of `withPermit`. */
  private readonly handedOut = new Set<Permit>();

  constructor(
    private readonly server: Server,
    private readonly resource: string,
  ) {}

  /** Idempotent. */
  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  private async closeOnce(): Promise<void> {
    this.closed.abort(new SemaphoreClosedError(this.resource));
    await Promise.all([...this.handedOut].map((permit) => permit.giveBack()));
    await this.server.ended();
  }

  /** Calls `tell` when the client is closed. @returns a function that stops the listening @throws SemaphoreClosedError when it is closed already */
  whenClosed(tell: (error: SemaphoreClosedError) => void): () => void {
    const { signal } = this.closed;
    signal.throwIfAborted();
    return onAbort(signal, () => tell(signal.reason));
  }

  /** Makes a wait that ends when the client is closed. @param work heeds the signal, which aborts then, or when the caller's signal does */
  async wait<T>(caller: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const own = new AbortController();
    setMaxListeners(0, own.signal); // one for each call to the server
    const stopListening = this.whenClosed((error) => own.abort(error));
    const stopHearing = onAbort(caller, () => own.abort(caller.reason));
    try {
      return await work(own.signal);
    } finally {
      stopHearing();
      stopListening();
    }
  }

  /** From now on, the caller releases the permit, or closing the client does. @throws SemaphoreClosedError when it is closed already */
  handOut(permit: Permit): Permit {
    permit.standAmong(this.handedOut);
    if (this.closed.signal.aborted) void this.server.track(permit.giveBack());
    this.closed.signal.throwIfAborted();
    return permit;
  }
}
