import { AsyncLocalStorage } from 'node:async_hooks';
import type { ConnectionLike, ConnectionOptions } from '@temporalio/client';
import { messageOf } from './errors';
import { onAbort } from './on-abort';

// The SDK's retries outlive the call that they are made for: they wait in a timer that neither the call's abort nor its deadline reaches,
// they make requests that no abort cancels, and on a connection that was closed meanwhile they throw where no caller can catch the error.
// The SDK has no public way to end them, so this relies on its internals, which `test/unit/sdk-internals.test.ts` checks.

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];
/** What the SDK uses of an attempt. */
type Attempt = Pick<ReturnType<Interceptor>, 'start' | 'sendMessage' | 'halfClose' | 'cancelWithStatus'>;

/** gRPC's code for a call that was cancelled, which the SDK does not retry. */
const CANCELLED = 1;

/** gRPC's state of a channel that was closed. */
const SHUTDOWN = 4;

/** The part of gRPC's channel that reports whether it was closed. */
interface Channel {
  getConnectivityState(tryToConnect: boolean): number;
  watchConnectivityState(since: number, deadline: number, changed: () => void): void;
}

/** The call of ours that makes a request, by the signal that ends it. */
const calls = new AsyncLocalStorage<AbortSignal>();

/** … by the options of the request: each retry of it has the same. */
const requests = new WeakMap<object, AbortSignal>();

/** The interceptor next to the wire: each attempt of a request passes it. It leaves all but our calls alone. */
const endWithCall = ((options: Parameters<Interceptor>[0], nextCall: Parameters<Interceptor>[1]): Attempt => {
  const call = requests.get(options);
  if (!call) {
    const own = calls.getStore();
    if (own) requests.set(options, own);
    return nextCall(options);
  }
  if (call.aborted) return ended('given up');
  try {
    const attempt = nextCall(options);
    call.addEventListener('abort', () => attempt.cancelWithStatus(CANCELLED, 'given up'));
    return attempt;
  } catch (error) {
    return ended(messageOf(error));
  }
}) as Interceptor;

/** An attempt that ends at once, and reaches no channel. */
function ended(details: string): Attempt {
  return {
    start(metadata, listener) {
      const none = new (metadata.constructor as new () => typeof metadata)();
      setImmediate(() => listener?.onReceiveStatus?.({ code: CANCELLED, details, metadata: none }));
    },
    sendMessage: () => undefined,
    halfClose: () => undefined,
    cancelWithStatus: () => undefined,
  };
}

/** Makes requests of the SDK, and calls of a `Server`. They end when the signal aborts, their retries included. */
export async function endingWith<T>(signal: AbortSignal, make: () => Promise<T>): Promise<T> {
  return await calls.run(signal, make);
}

/** The signal that ends the requests of the calling code. */
export function endOfCalls(): AbortSignal | undefined {
  return calls.getStore();
}

/** What is known of each connection, for as long as there is one. */
const known = new WeakMap<object, ConnectionEnd>();

/** Reports when a connection is closed. A `NativeConnection` reports it only to the next call. */
export class ConnectionEnd {
  private readonly closed = new AbortController();

  /** The one of this connection, whose retries end with their calls from now on. */
  static of(connection: ConnectionLike): ConnectionEnd {
    const found = known.get(connection);
    if (found) return found;
    const end = new ConnectionEnd(connection);
    known.set(connection, end);
    return end;
  }

  private constructor(connection: ConnectionLike) {
    const { options, client } = connection as {
      options?: Pick<ConnectionOptions, 'interceptors'>;
      client?: { getChannel?(): Channel };
    };
    const interceptors = options?.interceptors;
    if (Array.isArray(interceptors) && !Object.isFrozen(interceptors) && !interceptors.includes(endWithCall)) {
      interceptors.push(endWithCall);
    }
    const channel = client?.getChannel?.();
    if (channel) this.watch(channel);
  }

  get isClosed(): boolean {
    return this.closed.signal.aborted;
  }

  /** @returns a function that stops the listening */
  whenClosed(tell: () => void): () => void {
    return onAbort(this.closed.signal, tell);
  }

  private watch(channel: Channel): void {
    const state = channel.getConnectivityState(false);
    if (state !== SHUTDOWN) {
      channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => this.watch(channel));
      return;
    }
    this.closed.abort();
  }
}
