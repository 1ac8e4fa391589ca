import { setMaxListeners } from 'node:events';
import { type Client, isGrpcDeadlineError } from '@temporalio/client';
import { type BackoffPolicy, backoffMs } from '../../shared/backoff';
import { refuseKind } from '../../shared/check';
import type { Caller } from '../../shared/request';
import { monotonicMs, pause, soon } from './clock';
import { ConnectionEnd, endingWith, endOfCalls } from './ending-calls';
import {
  closedConnection,
  deadlineExceeded,
  isClosedConnection,
  isFailedPrecondition,
  isTransient,
} from './grpc-errors';
import { onAbort } from './on-abort';

const RETRY: BackoffPolicy = { baseMs: 100, maxMs: 5_000, factor: 2, jitter: 0.5 };

/** How long one call may take. A healthy server answers in milliseconds. */
const CALL_MS = 5_000;

/** A call shortly before the deadline may take this much longer, because its answer matters. */
export const LAST_CALL_MS = 300;

/** … and one that follows on its answer has at least this long. */
const LEAST_CALL_MS = 100;

/** If the SDK does not end a call at its deadline (while it waits between two retries), the call is ended this much later. */
const SLACK_MS = 50;

/** How long a call that has failed waits for what it leaves behind, such as a slot that it gives back. A healthy server needs less. */
const LEFT_BEHIND_MS = 200;

/** How long a long poll waits after a paused Workflow has refused it. The server does not report when the Workflow is unpaused. */
const PAUSED_MS = 15_000;

/**
 * How long one query may wait for a worker: less than the second after which `createPermitWorker`'s Workflows pass from a worker that is
 * gone to another one. A query for which a worker takes a Workflow over may come before a signal or a timer has its task: permits and queues
 * refuse it then (`refuseWithoutTask`), after a replay in vain.
 */
export const QUERY_MS = 800;

/** After this time a long poll starts again, so that a dead connection does not hold it indefinitely. */
const POLL_MS = 70_000;

/** @throws InvalidOptionsError for what is no client, such as a connection */
export function checkClient(client: unknown): void {
  if (typeof (client as Client | undefined)?.workflow?.start === 'function') return;
  refuseKind('client', 'new Client({ connection }) of @temporalio/client', client);
}

export interface Persistence {
  /** When to give up, on the monotonic clock. */
  untilMs: number;
  /** Gives up when it aborts. */
  signal: AbortSignal;
  /** The call under way goes on to its own end anyway: its answer matters even if no caller waits for it any more. */
  finishes?: boolean;
}

/** Calls to the server, with a limit of time and with retries. None goes on when its promise is settled: see `ending-calls`. */
export class Server {
  private readonly connection: ConnectionEnd;
  /** The work that goes on even if no caller waits for it: releases, and what failed calls have left behind. */
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
    if (this.connection.isClosed) throw closedConnection();
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
    const stopListening = this.connection.whenClosed(() => giveUp(closedConnection()));
    const timer = setTimeout(() => giveUp(deadlineExceeded(within)), within + SLACK_MS);
    try {
      const limitedCall = () => this.client.withDeadline(deadline, make);
      const answer = endingWith(own.signal, () => this.client.withAbortSignal(own.signal, limitedCall));
      return await Promise.race([answer, givenUp]);
    } catch (error) {
      throw isClosedConnection(error) ? closedConnection(error) : error;
    } finally {
      clearTimeout(timer);
      stopListening();
      stopHearing?.();
    }
  }

  /** Has {@link ended} wait for the work, even if other code waits for it too. */
  track<T>(work: Promise<T>): Promise<T> {
    this.underWay.add(work);
    const over = () => this.underWay.delete(work);
    work.then(over, over);
    return work;
  }

  /**
   * Waits a moment for what a call that fails leaves behind. The work goes on, so that the call can fail in time; {@link ended} waits for
   * it. Its own failure is not reported: why the call has failed matters more.
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
   * Makes a long poll until it has an answer, however long that takes, even if connections break.
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

/** Waits for the work until `untilMs`. @throws a transient error when the time is up, and the signal's reason; the work goes on */
export async function awaited<T>(work: Promise<T>, untilMs: number, signal: AbortSignal): Promise<T> {
  const leftMs = Math.max(1, untilMs - monotonicMs());
  const over = new AbortController();
  const stopHearing = onAbort(signal, () => over.abort());
  try {
    const first = await Promise.race([work.then((value) => ({ value })), pause(leftMs, over.signal)]);
    if (first) return first.value;
    signal.throwIfAborted();
    throw deadlineExceeded(leftMs);
  } finally {
    stopHearing();
    over.abort();
  }
}
