import { ApplicationFailure, inWorkflowContext } from '@temporalio/workflow';
import { lineFullMessage, selfDeadlockMessage, timeoutMessage } from '../shared/acquire-messages';
import { InvalidOptionsError } from '../shared/check';
import { lossMessage, type PermitLoss } from '../shared/loss';
import type { PermitAddress } from '../shared/permit-id';

// In Workflow code a plain Error fails the Workflow Task, which is then retried indefinitely. These are
// ApplicationFailures, so an uncaught error fails the Workflow; `type` stays the same across releases.

/**
 * No permit came free within the acquire's `timeout`. Type `PermitTimeoutError`, not retryable.
 *
 * @example
 * ```ts
 * import { PermitTimeoutError } from 'temporal-semaphore/workflow';
 *
 * try {
 *   await gpus.withPermit((permit) => train(permit.slot), { timeout: '5m' });
 * } catch (error) {
 *   if (!(error instanceof PermitTimeoutError)) throw error;
 *   await trainOn('cpu');
 * }
 * ```
 */
export class PermitTimeoutError extends ApplicationFailure {
  override readonly name = 'PermitTimeoutError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    /** The `timeout` of the call, in milliseconds. */
    readonly timeoutMs: number,
    /** How many permits the caller holds itself, if it has waited for itself. */
    own = 0,
  ) {
    super(timeoutMessage(resource, timeoutMs, own), 'PermitTimeoutError', true, [{ resource, timeoutMs }]);
  }
}

/**
 * No slot was free, and that many callers waited already that the acquire's `maxWaiting` kept it out; or it waited with
 * `whenFull: 'drop-oldest'`, and was dropped for a later caller. Type `LineFullError`, not retryable.
 */
export class LineFullError extends ApplicationFailure {
  override readonly name = 'LineFullError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    /** The bound that the caller gave. */
    readonly maxWaiting: number,
    /** Whether a later caller has taken its place. */
    readonly superseded = false,
  ) {
    const details = [{ resource, maxWaiting, superseded }];
    super(lineFullMessage(resource, maxWaiting, superseded), 'LineFullError', true, details);
  }
}

/**
 * The permit has ended before its holder released it. Another holder may have the slot now: stop using the resource. With
 * `how: 'preempted'`, a waiter of higher priority has asked for it, and it ends with its grace at the latest. Type `PermitLostError`,
 * not retryable.
 *
 * @example
 * ```ts
 * import { PermitLostError } from 'temporal-semaphore/workflow';
 *
 * try {
 *   await gpus.withPermit((permit) => train(permit.slot));
 * } catch (error) {
 *   if (error instanceof PermitLostError && error.how === 'preempted') await train('later');
 *   else throw error;
 * }
 * ```
 */
export class PermitLostError extends ApplicationFailure {
  override readonly name = 'PermitLostError';
  /** The name of the shared thing. */
  readonly resource: string;
  /** The slot of the lost permit. */
  readonly slot: string;

  constructor(
    { resource, slot }: PermitAddress,
    /** The run of the permit that was lost. */
    readonly runId: string,
    /** How the permit was lost. */
    readonly how: PermitLoss,
    /** The reason that the operator gave for revoking it. */
    readonly reason?: string,
  ) {
    super(lossMessage({ resource, slot }, runId, how, reason), 'PermitLostError', true, [
      { resource, slot, runId, how, reason },
    ]);
    this.resource = resource;
    this.slot = slot;
  }
}

/**
 * The caller holds all permits of the resource and asks for one more without a timeout: it would wait for itself. Type
 * `SelfDeadlockError`, not retryable.
 */
export class SelfDeadlockError extends ApplicationFailure {
  override readonly name = 'SelfDeadlockError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    held: number,
    capacity: number,
  ) {
    super(selfDeadlockMessage(resource, held, capacity), 'SelfDeadlockError', true, [{ resource }]);
  }
}

/**
 * Refuses a call from outside of a Workflow. A semaphore may be made there, since a client that imports a Workflows file for its types
 * loads that. Not retryable: an activity would be retried indefinitely.
 */
export function checkPlace(message = WRONG_PLACE): void {
  if (!inWorkflowContext()) throw ApplicationFailure.create({ type: 'IllegalStateError', nonRetryable: true, message });
}

const WRONG_PLACE =
  'The Semaphore of temporal-semaphore/workflow works only in Workflow code. Activities, services and scripts use the ' +
  'SemaphoreClient of temporal-semaphore/client; an activity is also limited by a withPermit around it in its Workflow.';

/** Runs a check of the caller's input; what it refuses fails the Workflow instead of its task. */
export function checked<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof InvalidOptionsError)) throw error;
    throw ApplicationFailure.create({ message: error.message, type: error.name, nonRetryable: true });
  }
}
