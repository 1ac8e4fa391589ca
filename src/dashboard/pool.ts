import type { Inspection } from '../client/inspection';

/** What the dashboard needs of a `SemaphoreClient`. */
export interface Pool {
  readonly resource: string;
  /** @param options `recent`: how many of the past holds to list; `0` spares a call to visibility */
  inspect(options: { recent: number }): Promise<Inspection>;
  revoke(slot: string, options: { runId?: string; reason?: string }): Promise<unknown>;
  resize(capacity: number, options: { ifVersion?: number; reason?: string }): Promise<unknown>;
  pause(options: { reason?: string }): Promise<unknown>;
  resume(): Promise<unknown>;
}
