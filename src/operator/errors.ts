import type { PermitAddress } from '../shared/permit-id';
import type { Override } from './inspection';

/** Nobody holds the slot, or another run than the named one does: there is nothing to revoke. */
export class NotHeldError extends Error {
  override readonly name = 'NotHeldError';
  readonly resource: string;
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
 * The override has another version than `ifVersion`: an operator has changed it meanwhile. This call has changed nothing. Look at
 * `current`, and decide again.
 */
export class StaleOverrideError extends Error {
  override readonly name = 'StaleOverrideError';

  constructor(
    readonly resource: string,
    readonly ifVersion: number,
    /** The present override; absent when there is none. */
    readonly current?: Override,
  ) {
    super(
      `Expected override version ${ifVersion} of "${resource}", found ${current ? `version ${current.version}` : 'none'}.`,
    );
  }
}
