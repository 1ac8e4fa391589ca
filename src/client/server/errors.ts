import { lineFullMessage, selfDeadlockMessage, timeoutMessage } from '../../shared/acquire-messages';
import { durationText } from '../../shared/duration';
import { lossMessage, type PermitLoss } from '../../shared/loss';
import { type PermitAddress, queueId } from '../../shared/permit-id';
import { unpauseCommand, workerCommand } from './commands';

/** The circumstances of a client's error, besides its `cause`. */
export interface Circumstances extends ErrorOptions {
  /** The task queue, if no worker polls it. */
  unpolled?: string;
  /** The task queue, if its workers have not polled it since before the call, and for how long. */
  silent?: { taskQueue: string; forMs: number };
  /** How many permits the caller holds itself, if it has waited for itself. */
  own?: number;
  /** The Workflow ID of the permit or of the queue, when it is paused on the server. */
  paused?: string;
}

/** Tells a user that no worker polls the task queue of the permits, and what to do. */
export function unpolledMessage(taskQueue: string): string {
  return `no worker polls task queue "${taskQueue}", so no slot comes free. Start a permit worker there (${workerCommand(taskQueue)}).`;
}

/**
 * No permit came free within the acquire's `timeout`. `cause` is set when the server could not be reached at the end.
 *
 * @example
 * ```ts
 * import { PermitTimeoutError } from 'temporal-semaphore/client';
 *
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
 * await gpus.withPermit(({ signal }) => train('a', { signal }), { timeout: '5m' }).catch((error: unknown) => {
 *   if (!(error instanceof PermitTimeoutError)) throw error;
 *   console.log(error.unpolled ? 'no permit worker runs' : 'busy: try later');
 * });
 * ```
 */
export class PermitTimeoutError extends Error {
  override readonly name = 'PermitTimeoutError';
  /** The task queue of the permits, if no worker polls it. The holders may then have released slots that do not come free. */
  readonly unpolled?: string;

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    /** The `timeout` of the call, in milliseconds. */
    readonly timeoutMs: number,
    { unpolled, silent, own, ...options }: Circumstances = {},
  ) {
    super(whyTimedOut(resource, timeoutMs, { unpolled, silent, own, ...options }), options);
    if (unpolled !== undefined) this.unpolled = unpolled;
  }
}

function whyTimedOut(resource: string, timeoutMs: number, { cause, unpolled, silent, own }: Circumstances): string {
  if (cause)
    return `Could not acquire a permit of "${resource}" within ${durationText(timeoutMs)}: the server could not be reached (see cause).`;
  if (unpolled !== undefined) return `Could not acquire a permit of "${resource}": ${unpolledMessage(unpolled)}`;
  if (silent !== undefined && !own)
    return `No permit of "${resource}" came free within ${durationText(timeoutMs)}, and no worker has polled task queue "${silent.taskQueue}" for ${durationText(silent.forMs)}: perhaps the permit worker has just ended (temporal-semaphore doctor).`;
  return timeoutMessage(resource, timeoutMs, own);
}

/**
 * No slot was free, and that many callers waited already that the acquire's `maxWaiting` kept it out; or it waited with
 * `whenFull: 'drop-oldest'`, and was dropped for a later caller.
 *
 * @example
 * ```ts
 * import { LineFullError } from 'temporal-semaphore/client';
 *
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
 * await gpus.acquire({ maxWaiting: 10 }).catch((error: unknown) => {
 *   if (error instanceof LineFullError) console.log('too busy');
 *   else throw error;
 * });
 * ```
 */
export class LineFullError extends Error {
  override readonly name = 'LineFullError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    /** The bound that the caller gave. */
    readonly maxWaiting: number,
    /** Whether a later caller has taken its place. A retry would drop that caller in turn. */
    readonly superseded = false,
  ) {
    super(lineFullMessage(resource, maxWaiting, superseded));
  }
}

/**
 * The permit has ended before its holder released it, or its lease is about to end and no renewal gets through. Another
 * holder may have the slot now or soon: stop using the resource. With `how: 'preempted'`, a waiter of higher priority has asked for it,
 * and it ends with its grace at the latest. This is also the reason of an aborted `permit.signal`.
 *
 * @example
 * ```ts
 * import { PermitLostError } from 'temporal-semaphore/client';
 *
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
 * await gpus.withPermit(({ signal }) => train('a', { signal })).catch((error: unknown) => {
 *   if (!(error instanceof PermitLostError)) throw error;
 *   console.log(error.how === 'revoked' ? `revoked: ${error.reason}` : `lost: ${error.how}`);
 * });
 * ```
 */
export class PermitLostError extends Error {
  override readonly name = 'PermitLostError';
  /** The name of the shared thing. */
  readonly resource: string;
  /** The slot of the lost permit. */
  readonly slot: string;

  constructor(
    { resource, slot }: PermitAddress,
    /** The run of the permit that was lost. */
    readonly runId: string,
    /** How it was lost. */
    readonly how: PermitLoss,
    /** The reason that the operator gave for revoking it. */
    readonly reason?: string,
    /** `cause`: what the function under the permit threw, if it threw something else; otherwise the error of the last renewal. */
    options?: ErrorOptions,
  ) {
    super(lossMessage({ resource, slot }, runId, how, reason), options);
    this.resource = resource;
    this.slot = slot;
  }
}

/**
 * The loss, with what the function under the permit threw as its cause. A copy, since calls under one permit of a pool share its loss. The
 * loss itself, if the function threw that, or the error of an aborted call.
 */
export function lossOver<Loss>(loss: Loss, thrown: unknown): Loss | PermitLostError {
  const isOfLoss = thrown === loss || (thrown as { name?: unknown } | undefined)?.name === 'AbortError';
  if (!(loss instanceof PermitLostError) || isOfLoss) return loss;
  return new PermitLostError(loss, loss.runId, loss.how, loss.reason, { cause: thrown });
}

/**
 * The caller holds all permits of the resource and asks for one more without a timeout: it would wait for itself. Use the permit that it
 * holds, make the semaphore `reentrant`, or give a `timeout`.
 */
export class SelfDeadlockError extends Error {
  override readonly name = 'SelfDeadlockError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    held: number,
    capacity: number,
  ) {
    super(selfDeadlockMessage(resource, held, capacity));
  }
}

/**
 * No worker has carried out the operator command in time. The command may still take effect when a worker runs. Check that a worker with
 * the permit Workflows polls the task queue. Or the permit or the queue is `paused` on the server: a permit then takes the command when
 * the permit is unpaused, and a queue has refused it.
 *
 * @example
 * ```ts
 * import { NoAnswerError, Operator } from 'temporal-semaphore/operator';
 *
 * await new Operator(client, 'gpu-pool').pause().catch((error: unknown) => {
 *   if (error instanceof NoAnswerError && error.unpolled) console.log(`start a permit worker on ${error.unpolled}`);
 *   else throw error;
 * });
 * ```
 */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
  /** The task queue of the permits, if no worker polls it. */
  readonly unpolled?: string;
  /** The Workflow ID of the permit or of the queue, when it is paused on the server (Workflow Pause). */
  readonly paused?: string;

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
    /** The `timeout` of the call, in milliseconds. */
    readonly timeoutMs: number,
    { unpolled, paused, ...options }: Circumstances = {},
  ) {
    super(whyNotAnswered(resource, timeoutMs, { unpolled, paused }), options);
    if (unpolled !== undefined) this.unpolled = unpolled;
    if (paused !== undefined) this.paused = paused;
  }
}

function whyNotAnswered(resource: string, timeoutMs: number, { unpolled, paused }: Circumstances): string {
  if (paused === queueId(resource))
    return `${paused} is paused on the server, so it takes no operator command: nothing has changed. Unpause it, and repeat the command: ${unpauseCommand(paused)}`;
  if (paused !== undefined)
    return `${paused} is paused on the server, so it keeps its slot. It ends once it is unpaused: ${unpauseCommand(paused)}`;
  const silence = `No worker has answered for "${resource}" within ${durationText(timeoutMs)}`;
  if (unpolled !== undefined) return `${silence}: ${unpolledMessage(unpolled)}`;
  return `${silence}. Check that a worker with the permit Workflows is running.`;
}

/**
 * The messages of an error and its causes: the SDK's errors say what failed, and their causes say why. Drops a message
 * that its cause repeats.
 */
export function messageOf(error: unknown): string {
  const messages: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const last = messages.at(-1);
    if (last !== undefined && cause.message.includes(last)) messages.pop();
    messages.push(cause.message);
  }
  const reason = messages.pop();
  return [...messages.map((message) => message.replace(/\.$/, '')), reason].join(': ') || String(error);
}

/** The permit pool was closed before this caller was served. Nothing was run. */
export class PoolClosedError extends Error {
  override readonly name = 'PoolClosedError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
  ) {
    super(`The permit pool of "${resource}" is closed: it serves no more callers. Make a new PermitPool.`);
  }
}

/** The `SemaphoreClient` was closed before this caller had a permit. Nothing was run. */
export class SemaphoreClosedError extends Error {
  override readonly name = 'SemaphoreClosedError';

  constructor(
    /** The name of the shared thing. */
    readonly resource: string,
  ) {
    super(`The SemaphoreClient of "${resource}" is closed: it serves no more callers. Make a new SemaphoreClient.`);
  }
}
