import { lossMessage, type PermitLoss, timeoutMessage } from '../shared/loss';
import type { PermitAddress } from '../shared/permit-id';
import type { Override } from './operator/inspection';

/** How an error of the client came about, beside its `cause`. */
interface Circumstances extends ErrorOptions {
  /** The task queue, where nobody polls it. */
  unpolled?: string;
}

/** What to do where nobody polls the task queue that permits run on. */
export function unpolledMessage(taskQueue: string): string {
  return `nobody polls task queue "${taskQueue}", so no slot comes free. Start a permit worker there (temporal-semaphore worker --task-queue ${taskQueue}).`;
}

/** No permit came free within the acquire's `timeout`. `cause` is set when the server could not be asked at the end. */
export class PermitTimeoutError extends Error {
  override readonly name = 'PermitTimeoutError';
  /** The task queue of the permits, when nobody polls it: then those who held the slots may have given them back. */
  readonly unpolled?: string;

  constructor(
    readonly resource: string,
    readonly timeoutMs: number,
    { unpolled, ...options }: Circumstances = {},
  ) {
    super(whyTimedOut(resource, timeoutMs, { unpolled, ...options }), options);
    if (unpolled !== undefined) this.unpolled = unpolled;
  }
}

function whyTimedOut(resource: string, timeoutMs: number, { cause, unpolled }: Circumstances): string {
  if (cause)
    return `Could not acquire a permit of "${resource}" within ${timeoutMs} ms: the server could not be reached (see cause).`;
  if (unpolled !== undefined) return `Could not acquire a permit of "${resource}": ${unpolledMessage(unpolled)}`;
  return timeoutMessage(resource, timeoutMs);
}

/**
 * The permit ended before its holder released it, or its lease is about to end and no renewal gets through: somebody else
 * may hold the slot now, or will soon, so stop using the resource. It is also the reason of an aborted `permit.signal`.
 */
export class PermitLostError extends Error {
  override readonly name = 'PermitLostError';
  readonly resource: string;
  readonly slot: string;

  constructor(
    { resource, slot }: PermitAddress,
    /** The run of the permit that was lost. */
    readonly runId: string,
    /** How it was lost. */
    readonly how: PermitLoss,
    /** What the operator said who revoked it. */
    readonly reason?: string,
    /** `cause`: why no renewal got through. */
    options?: ErrorOptions,
  ) {
    super(lossMessage({ resource, slot }, runId, how, reason), options);
    this.resource = resource;
    this.slot = slot;
  }
}

/** Nobody holds the slot, or not the run that was named: there is nothing to revoke. */
export class NotHeldError extends Error {
  override readonly name = 'NotHeldError';
  readonly resource: string;
  readonly slot: string;

  constructor(
    { resource, slot }: PermitAddress,
    /** The run that was to be revoked, if one was named. */
    readonly runId?: string,
  ) {
    super(
      runId === undefined
        ? `Nobody holds slot "${slot}" of "${resource}".`
        : `Run ${runId} does not hold slot "${slot}" of "${resource}" (any more). Look again who does.`,
    );
    this.resource = resource;
    this.slot = slot;
  }
}

/**
 * The override is not of the version that `ifVersion` named: somebody has changed it meanwhile. Nothing was changed. Look
 * at `current`, and decide anew.
 */
export class StaleOverrideError extends Error {
  override readonly name = 'StaleOverrideError';

  constructor(
    readonly resource: string,
    readonly ifVersion: number,
    /** What is set now; absent when nothing is. */
    readonly current?: Override,
  ) {
    super(
      `Expected override version ${ifVersion} of "${resource}", found ${current ? `version ${current.version}` : 'none'}.`,
    );
  }
}

/**
 * No worker has carried out the order in time; it may still take effect when one is up. Is a worker with the permit Workflows
 * running on the task queue?
 */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
  /** The task queue of the permits, when nobody polls it. */
  readonly unpolled?: string;

  constructor(
    readonly resource: string,
    readonly timeoutMs: number,
    { unpolled, ...options }: Circumstances = {},
  ) {
    const silence = `No worker has answered for "${resource}" within ${timeoutMs} ms`;
    super(
      unpolled === undefined
        ? `${silence}. Is one with the permit Workflows up?`
        : `${silence}: ${unpolledMessage(unpolled)}`,
      options,
    );
    if (unpolled !== undefined) this.unpolled = unpolled;
  }
}

/** The error's message and those of its causes: the SDK's errors say what failed, and their causes say why. */
export function messageOf(error: unknown): string {
  const messages: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) messages.push(cause.message);
  return messages.join(': ') || String(error);
}
