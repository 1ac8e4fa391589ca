import type { SeenPool } from '../client/operators';

/** Looks for pools that nobody named. */
export interface PoolFinder {
  /** Those that are in use; of one that was found before, the same object until {@link forget}. Asked now and then while a page is open. */
  find(): Promise<readonly Pool[]>;
  /** The dashboard shows this one no longer. */
  forget(resource: string): void;
}

/** What the dashboard needs of a `SemaphoreClient`. */
export interface Pool {
  readonly resource: string;
  /** @param options `recent`: how many of the past holds to list; `0` spares a call to visibility */
  inspect(options: { recent: number }): Promise<SeenPool>;
  revoke(slot: string, options: { runId?: string; reason?: string }): Promise<unknown>;
  resize(capacity: number, options: { ifVersion?: number; reason?: string }): Promise<unknown>;
  pause(options: { ifVersion?: number; reason?: string }): Promise<unknown>;
  resume(options: { ifVersion?: number }): Promise<unknown>;
}
