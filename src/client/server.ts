import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import {
  ApplicationFailure,
  type Client,
  isGrpcDeadlineError,
  isGrpcServiceError,
  QueryNotRegisteredError,
  QueryRejectedError,
  ServiceError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { type BackoffPolicy, backoffMs } from '../shared/backoff';
import { JUST_MOVED } from '../shared/protocol';
import type { Caller } from '../shared/request';
import { ConnectionEnd, endingWith, endOfCalls } from './ending-calls';
import { messageOf } from './errors';
import { onAbort } from './on-abort';

/** gRPC's codes of errors that a retry may overcome. None of them says anything about a slot. */
const TRANSIENT = new Set([
  1, // CANCELLED: by a proxy or a closing connection; a caller that aborts makes no retry
  2, // UNKNOWN
  4, // DEADLINE_EXCEEDED
  8, // RESOURCE_EXHAUSTED: slow down
  10, // ABORTED
  13, // INTERNAL: broken streams come as this too
  14, // UNAVAILABLE
]);

const RETRY: BackoffPolicy = { baseMs: 100, maxMs: 5_000, factor: 2, jitter: 0.5 };

/** How long one call may take. A healthy server answers in milliseconds. */
const CALL_MS = 5_000;

/** A call shortly before the deadline may take so much longer: its answer matters. */
export const LAST_CALL_MS = 300;

/** … and one that follows on its answer has at least this long. */
const LEAST_CALL_MS = 100;

/** So much later than its deadline a call ends that the SDK has not ended. It waits between two retries then. */
const SLACK_MS = 50;

/** How long a call that has failed waits for what it leaves behind, such as a slot that it gives back. A healthy server needs less. */
const LEFT_BEHIND_MS = 200;

/** gRPC's code for a call whose time was up. */
const DEADLINE_EXCEEDED = 4;

const FAILED_PRECONDITION = 9;

/** How long a long poll that a paused Workflow has refused waits. Nobody says when the Workflow is unpaused. */
const PAUSED_MS = 15_000;

/**
 * How long one query may wait for a worker: less than the second after which `createPermitWorker`'s Workflows pass from a worker that is
 * gone to another one. A query for which a worker takes a Workflow over may come before a signal or a timer has its task: permits and queues
 * refuse it then (`refuseWithoutTask`), after a replay in vain.
 */
export const QUERY_MS = 800;

/** After this time a long poll starts again, so that a dead connection does not hold it for ever. */
const POLL_MS = 70_000;

export interface Persistence {
  /** When to give up, on the monotonic clock. */
  untilMs: number;
  /** Gives up when it aborts. */
  signal: AbortSignal;
  /** The call under way goes on to its own end all the same: its answer matters also when nobody waits for it any more. */
  finishes?: boolean;
}

/** Calls to the server, with a limit of time and with retries. None goes on when its promise is settled: see `ending-calls`. */
export class Server {
  private readonly connection: ConnectionEnd;
  /** What goes on although nobody may wait for it: releases, and what failed calls have left behind. */
  private readonly underWay = new Set<Promise<unknown>>();

  constructor(readonly client: Client) {
    this.connection = ConnectionEnd.of(client.connection);
  }

  get identity(): string {
    return this.client.options.identity;
  }

  /** Who asks, in each request. */
  get caller(): Pick<Caller, 'identity' | 'namespace'> {
    const { identity, namespace } = this.client.options;
    return { identity, namespace };
  }

  /** Makes one call, which fails when it takes too long. Limits that the user has set on the client's calls do not apply. */
  async call<T>(make: () => Promise<T>, withinMs = CALL_MS, signal = endOfCalls()): Promise<T> {
    signal?.throwIfAborted(); // the SDK only listens for what is still to come
    if (this.connection.isClosed) throw closed();
    const within = Math.max(1, withinMs);
    const deadline = Date.now() + within;
    // The SDK adds a listener for each request and removes none, so each call has a signal of its own. (`AbortSignal.any` would
    // leak: Node keeps such a signal while it has a listener, and with it 20 kB of each call.)
    const own = new AbortController();
    // A long poll makes many requests, so it has many listeners. They go with the call: Node need not warn of a leak.
    setMaxListeners(0, own.signal);
    let giveUp = (_: unknown) => {};
    // A `NativeConnection`, as activities have it, does not heed the signal.
    const givenUp = new Promise<never>((_, reject) => {
      giveUp = (reason) => {
        own.abort(reason);
        reject(reason);
      };
    });
    const stopHearing = signal && onAbort(signal, () => giveUp(signal.reason));
    const stopListening = this.connection.whenClosed(() => giveUp(closed()));
    const timer = setTimeout(() => giveUp(late(within)), within + SLACK_MS);
    try {
      const limitedCall = () => this.client.withDeadline(deadline, make);
      const answer = endingWith(own.signal, () => this.client.withAbortSignal(own.signal, limitedCall));
      return await Promise.race([answer, givenUp]);
    } catch (error) {
      throw isClosedConnection(error) ? closed(error) : error;
    } finally {
      clearTimeout(timer);
      stopListening();
      stopHearing?.();
    }
  }

  /** Lets {@link ended} wait for the work, whoever else does. */
  track<T>(work: Promise<T>): Promise<T> {
    this.underWay.add(work);
    const over = () => this.underWay.delete(work);
    work.then(over, over);
    return work;
  }

  /**
   * Waits a moment for what a call that fails leaves behind. The work goes on, so that the call can fail in time; {@link ended} waits for
   * it. That it fails too is not told: why the call has failed counts more.
   */
  async leaveBehind(work: Promise<unknown>, withinMs = LEFT_BEHIND_MS): Promise<void> {
    await soon(this.track(work), withinMs);
  }

  /** Resolves when nothing is under way: no release, and nothing that a failed call has left behind. */
  async ended(): Promise<void> {
    while (this.underWay.size > 0) await Promise.allSettled(this.underWay);
  }

  /** Retries transient errors until a final answer comes. @throws any other error, the last transient one when time is up, or the signal's reason */
  async persist<T>(make: () => Promise<T>, { untilMs, signal, finishes }: Persistence): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        if (finishes) return await this.call(make);
        const leftMs = untilMs + LAST_CALL_MS - monotonicMs();
        return await this.call(make, Math.min(CALL_MS, Math.max(LEAST_CALL_MS, leftMs)), signal);
      } catch (error) {
        const leftMs = untilMs - monotonicMs();
        if (signal.aborted || !isTransient(error) || leftMs <= 0) throw error;
        await pause(Math.min(leftMs, retryDelayMs(attempt)), signal);
        signal.throwIfAborted();
      }
    }
  }

  /**
   * Makes a long poll until it has an answer, however long that takes, also while connections break.
   * @param ended reads an error that is an answer; `undefined` for one that is not
   * @throws the signal's reason, or what `ended` throws
   */
  async poll<T>(make: () => Promise<T>, signal: AbortSignal, ended: (error: unknown) => T | undefined): Promise<T> {
    for (let failures = 0; ; ) {
      try {
        return await this.call(make, POLL_MS, signal);
      } catch (error) {
        signal.throwIfAborted();
        const answer = ended(error);
        if (answer !== undefined) return answer;
        failures = isGrpcDeadlineError(error) ? 0 : failures + 1;
        if (failures > 0) await pause(isFailedPrecondition(error) ? PAUSED_MS : retryDelayMs(failures), signal);
      }
    }
  }
}

/** The delay before the next try, in milliseconds. */
export function retryDelayMs(attempt: number): number {
  return backoffMs(attempt, Math.random(), RETRY);
}

const CLOSED =
  'The connection of this client was closed. Make another, and close it when no permit is held or awaited any more.';

function closed(cause?: unknown): ServiceError {
  return new ServiceError(CLOSED, cause === undefined ? undefined : { cause: cause as Error });
}

/** The error of a call that the SDK has not ended at its deadline, as it would be from the SDK. */
function late(withinMs: number): ServiceError {
  const details = `the server has not answered within ${Math.ceil(withinMs)} ms`;
  const cause = Object.assign(new Error(`${DEADLINE_EXCEEDED} DEADLINE_EXCEEDED: ${details}`), {
    code: DEADLINE_EXCEEDED,
    details,
    metadata: {},
  });
  return new ServiceError('The server did not answer in time', { cause });
}

/** Waits for the work until then. @throws a transient error when its time is up, and the signal's reason; the work goes on */
export async function awaited<T>(work: Promise<T>, untilMs: number, signal: AbortSignal): Promise<T> {
  const leftMs = Math.max(1, untilMs - monotonicMs());
  const over = new AbortController();
  const stopHearing = onAbort(signal, () => over.abort());
  try {
    const first = await Promise.race([work.then((value) => ({ value })), pause(leftMs, over.signal)]);
    if (first) return first.value;
    signal.throwIfAborted();
    throw late(leftMs);
  } finally {
    stopHearing();
    over.abort();
  }
}

/** Waits so long at most until the work is done, or has failed. */
export async function soon(work: Promise<unknown>, withinMs: number): Promise<void> {
  const over = new AbortController();
  await Promise.race([Promise.allSettled([work]), pause(withinMs, over.signal)]);
  over.abort();
}

/** What gRPC says on a connection that was closed, and what a `NativeConnection` says. */
export function isClosedConnection(error: unknown): boolean {
  return /Channel has been shut down|Client already closed|The connection of this client was closed/.test(
    messageOf(error),
  );
}

/** Whether a retry may help: overload, a broken connection, a time-out. */
export function isTransient(error: unknown): boolean {
  if (isClosedConnection(error)) return false;
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (isGrpcServiceError(cause) && TRANSIENT.has(cause.code)) return true;
  }
  return false;
}

/** The Workflow of a query is gone or paused, or does not know the query. */
export function isNotThere(error: unknown): boolean {
  if (error instanceof QueryRejectedError) return true; // we refuse no status, and the server only refuses that of a paused one
  return (error instanceof QueryNotRegisteredError && !hasJustMoved(error)) || error instanceof WorkflowNotFoundError;
}

/** With what the server refuses an update of a paused Workflow, and a query whose task queue no worker has polled for long. */
export function isFailedPrecondition(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (isGrpcServiceError(cause) && cause.code === FAILED_PRECONDITION) return true;
  }
  return false;
}

/** With what a Workflow has refused an update. */
export function refusalOf(error: unknown): ApplicationFailure | undefined {
  if (!(error instanceof WorkflowUpdateFailedError)) return undefined;
  return error.cause instanceof ApplicationFailure ? error.cause : undefined;
}

/** An update or a query came while another worker took its Workflow over. It can be sent again at once. */
export function hasJustMoved(error: unknown): boolean {
  // The server says of each query that fails what it says of one that is not registered.
  if (error instanceof QueryNotRegisteredError) return error.message.includes(JUST_MOVED);
  return refusalOf(error)?.type === JUST_MOVED;
}

/** No worker has answered a query. */
export function isSilence(error: unknown): boolean {
  if (isNotThere(error) || hasJustMoved(error)) return true;
  return isTransient(error) || isFailedPrecondition(error);
}

/** Milliseconds on a clock that never jumps. It goes on while the process is stopped, and stands still while the machine sleeps. */
export function monotonicMs(): number {
  return performance.now();
}

/** The longest that one timer of Node can be. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Waits for that time, or until the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // Many acquires may share a signal, and all pause while the server is away. Each listener goes with its pause.
  setMaxListeners(0, signal);
  try {
    await delay(Math.min(Math.max(0, ms), MAX_TIMER_MS), undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Enough calls at once to be quick, and too few for the server's rate limits. */
const MAX_AT_ONCE = 32;

/** Does `work` for each item, at most 32 at a time. The results are in the items' order. */
export async function mapConcurrently<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const left = items.entries();
  const worker = async () => {
    for (const [index, item] of left) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(MAX_AT_ONCE, items.length) }, worker));
  return results;
}
