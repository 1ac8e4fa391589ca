import { setMaxListeners } from 'node:events';
import { SemaphoreClosedError } from './errors';
import type { Permit } from './holder/permit';
import { onAbort } from './on-abort';
import type { Server } from './server';

/**
 * What the close of a `SemaphoreClient` ends, gives back and waits for.
 *
 *     open --close()--> closing: waiters are refused, permits that were handed out go back --nothing is under way--> closed
 */
export class Closing {
  private error: SemaphoreClosedError | undefined;
  private closing: Promise<void> | undefined;
  private readonly told = new Set<(error: SemaphoreClosedError) => void>();
  /** Permits whose holders release them by themselves: those of `acquire`, not those of `withPermit`. */
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
    const error = new SemaphoreClosedError(this.resource);
    this.error = error;
    for (const tell of [...this.told]) tell(error);
    await Promise.all([...this.handedOut].map((permit) => permit.giveBack()));
    await this.server.ended();
  }

  /** Calls `tell` at the close. @returns what stops it @throws SemaphoreClosedError when it is closed already */
  whenClosed(tell: (error: SemaphoreClosedError) => void): () => void {
    if (this.error) throw this.error;
    this.told.add(tell);
    return () => this.told.delete(tell);
  }

  /** Makes a wait of which the close is the end. @param work heeds the signal, which aborts by the close, or as the caller's does */
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

  /** The permit is its caller's now, who releases it; or the close does. @throws SemaphoreClosedError when it is closed already */
  handOut(permit: Permit): Permit {
    permit.standAmong(this.handedOut);
    if (!this.error) return permit;
    void this.server.track(permit.giveBack());
    throw this.error;
  }
}
