import type { PermitAddress } from '../shared/permit-id';
import type { Override } from './inspection';

/**
 * No caller holds the slot, or another run than the named one does: there is nothing to revoke.
 *
 * @example
 * ```ts
 * import { NotHeldError, Operator } from 'temporal-semaphore/operator';
 *
 * await new Operator(client, 'gpu-pool').revoke('0').catch((error: unknown) => {
 *   if (!(error instanceof NotHeldError)) throw error; // it was released meanwhile
 * });
 * ```
 */
export class NotHeldError extends Error {
  override readonly name = 'NotHeldError';
  /** The name of the shared thing. */
  readonly resource: string;
  /** The slot that was to be revoked. */
  readonly slot: string;

  constructor(
    { resource, slot }: PermitAddress,
    /** The run to revoke, if the caller named one. */
    readonly runId?: string,
  ) {
    super(
      runId === undefined
        ? `No caller holds slot "${slot}" of "${resource}".`
        : `Run ${runId} does not hold slot "${slot}" of "${resource}" (any more). Inspect the resource again.`,
    );
    this.resource = resource;
    this.slot = slot;
  }
}

/**
 * The override has another version than `ifVersion`: an operator has changed it meanwhile. This call has changed nothing. Read
 * `current`, and decide again.
 *
 * @example
 * ```ts
 * import { Operator, StaleOverrideError } from 'temporal-semaphore/operator';
 *
 * await new Operator(client, 'gpu-pool').resize(5, { ifVersion: 2 }).catch((error: unknown) => {
 *   if (error instanceof StaleOverrideError) console.log('now set:', error.current);
 *   else throw error;
 * });
 * ```
 */
export class StaleOverrideError extends Error {
  override readonly name = 'StaleOverrideError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    /** The version that the caller expected. */
    readonly ifVersion: number,
    /** The present override; absent when there is none. */
    readonly current?: Override,
  ) {
    super(
      `Expected override version ${ifVersion} of "${resource}", found ${current ? `version ${current.version}` : 'none'}.`,
    );
  }
}
