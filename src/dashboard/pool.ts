import type { SeenPool } from '../client/operators';

/** Finds pools that the operator has not named. */
export interface PoolFinder {
  /** The pools in use. A pool that was found before is the same object, until {@link forget}. The hub asks now and then while a page is open. */
  find(): Promise<readonly Pool[]>;
  /** The dashboard no longer shows this pool. */
  forget(resource: string): void;
}

/** The part of a `SemaphoreClient` that the dashboard needs. */
export interface Pool {
  readonly resource: string;
  /** @param options `recent`: how many of the past holds to list; `0` spares a call to visibility */
  inspect(options: { recent: number }): Promise<SeenPool>;
  revoke(slot: string, options: { runId?: string; reason?: string }): Promise<unknown>;
  resize(capacity: number, options: { ifVersion?: number; reason?: string }): Promise<unknown>;
  pause(options: { ifVersion?: number; reason?: string }): Promise<unknown>;
  resume(options: { ifVersion?: number }): Promise<unknown>;
}
