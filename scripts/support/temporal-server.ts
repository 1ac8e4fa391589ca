import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { ServerSource } from './find-server';
import { findServer } from './find-server';
import { type ServerOptions, spawnServer } from './server-process';

/** A server, and connections to it. */
export interface TemporalServer {
  readonly address: string;
  /** Where it tells its counters, if {@link startServer} was asked for that and has started it. */
  readonly metrics: string | undefined;
  readonly connection: Connection;
  readonly client: Client;
  /** For workers. */
  readonly nativeConnection: NativeConnection;
  /** Ends what {@link startServer} has started: the connections, and the server if that is its own. */
  teardown(): Promise<void>;
}

/** Starts the embedded server, or joins the one that the environment names. */
export async function startServer(options: ServerOptions = {}): Promise<TemporalServer> {
  return await startServerFrom(await findServer(), options);
}

/** As {@link startServer}, from a source that is known already. */
export async function startServerFrom(source: ServerSource, options: ServerOptions = {}): Promise<TemporalServer> {
  if ('address' in source) return await connectTo(source.address);
  const server = await spawnServer(source.path, options);
  try {
    return await connectTo(server.address, server.metrics, () => server.stop());
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function connectTo(address: string, metrics?: string, stop = async () => {}): Promise<TemporalServer> {
  const retries = new Retries();
  const connection = await Connection.connect({ address, interceptors: [makeGrpcRetryInterceptor(retries)] });
  const nativeConnection = await NativeConnection.connect({ address });
  return {
    ...{ address, metrics, connection, nativeConnection },
    client: new Client({ connection }),
    async teardown() {
      await retries.end();
      await connection.close();
      await nativeConnection.close();
      await stop();
    },
  };
}

/** How long a server may take to know a new namespace. */
const KNOWN_WITHIN_MS = 60_000;

/** Makes a namespace, and waits until the server knows it: that takes a frontend some seconds. */
export async function makeNamespace({ workflowService }: Connection, namespace: string): Promise<void> {
  const workflowExecutionRetentionPeriod = { seconds: (24 * 3_600) as never };
  await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
  for (const untilMs = Date.now() + KNOWN_WITHIN_MS; ; await delay(200)) {
    try {
      await workflowService.countWorkflowExecutions({ namespace });
      return;
    } catch (error) {
      if (Date.now() > untilMs) throw error;
    }
  }
}

/**
 * The SDK's retries, which can be ended. A call that sleeps until its next try, while its connection is closed, throws out of a
 * timer, where nobody can catch it.
 */
class Retries {
  private readonly defaults = defaultGrpcRetryOptions();
  private hasEnded = false;
  private nextTryMs = 0;

  readonly retryableDecider: typeof this.defaults.retryableDecider = (attempt, status) =>
    !this.hasEnded && this.defaults.retryableDecider(attempt, status);

  readonly delayFunction: typeof this.defaults.delayFunction = (attempt, status) => {
    const delayMs = this.defaults.delayFunction(attempt, status);
    this.nextTryMs = Math.max(this.nextTryMs, performance.now() + delayMs);
    return delayMs;
  };

  async end(): Promise<void> {
    this.hasEnded = true;
    await delay(Math.max(0, this.nextTryMs - performance.now()));
  }
}
