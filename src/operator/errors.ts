import type { PermitAddress } from '../shared/permit-id';
import type { Override, Stranger } from './inspection';
import { strangersLine } from './reader';
import { strangersRemedy } from './remedies';

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
 * A Workflow of another type has the ID of the permit or of the queue. Nothing was sent to it. It keeps the slot, or the queue, until an
 * operator terminates it.
 *
 * @example
 * ```ts
 * import { ForeignWorkflowError, Operator } from 'temporal-semaphore/operator';
 *
 * await new Operator(client, 'gpu-pool').revoke('0').catch((error: unknown) => {
 *   if (error instanceof ForeignWorkflowError) console.log(error.type, error.workflowId, error.runId);
 *   else throw error;
 * });
 * ```
 */
export class ForeignWorkflowError extends Error {
  override readonly name = 'ForeignWorkflowError';
  /** The ID, which belongs to a permit or a queue. */
  readonly workflowId: string;
  /** The foreign Workflow's run, to terminate it. */
  readonly runId: string;
  /** The foreign Workflow's type. */
  readonly type: string;

  constructor(stranger: Stranger) {
    super(`${strangersLine([stranger])}. ${strangersRemedy([stranger])}`);
    this.workflowId = stranger.workflowId;
    this.runId = stranger.runId;
    this.type = stranger.type;
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
