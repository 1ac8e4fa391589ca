import type { Client } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, defaultPayloadConverter, type Headers } from '@temporalio/common';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { PermitPool } from '../client/pool/permit-pool';
import type { PoolAcquireOptions } from '../client/pool/pool-options';
import { SemaphoreClient } from '../client/semaphore-client';
import { PermitTimeoutError } from '../client/server/errors';
import { MAX_DURATION_MS, refuse } from '../shared/check';
import { checkActivityLimit, type DeclaredSemaphore, entriesOf, type Limit } from '../shared/declared-limits';
import { HELD_HEADER, StaleTokenError } from '../shared/fencing-token';

type Context = Parameters<ActivityInterceptorsFactory>[0];

/**
 * How the activities of one type are limited. Their process keeps a permit pool for each semaphore, so most of them wait for no call to
 * the server.
 *
 * @example
 * ```ts
 * import { Semaphore } from 'temporal-semaphore/workflow';
 * import type { ActivityLimit } from 'temporal-semaphore/worker';
 *
 * const vendor = new Semaphore('vendor-api', { capacity: 20, perKey: 2 });
 * const callVendorLimit: ActivityLimit<[tenant: string]> = { semaphore: vendor, key: (tenant) => tenant };
 * const plugin = new SemaphorePlugin({ activities: { callVendor: callVendorLimit } });
 * ```
 */
export interface ActivityLimit<Args extends unknown[] = never[]> extends Limit<Args> {}

/**
 * The limits of activities, by type. Instead of a limit, give your own {@link PermitPool}, which several types may share, and which you
 * close after the worker.
 */
// biome-ignore lint/suspicious/noExplicitAny: any function can be an activity
export type ActivityLimits<Activities = Record<string, (...args: any[]) => unknown>> = {
  readonly [Type in keyof Activities]?: Activities[Type] extends (...args: infer Args) => unknown
    ? ActivityLimit<Args> | PermitPool | undefined
    : never;
};

/** How many times a waiting activity heartbeats in each `heartbeatTimeout`. */
const HEARTBEATS = 3;

/** An activity waits for at most this part of its `startToCloseTimeout`: the rest is for its own code. */
const WAITING = 0.5;

/** The SDK's reason for cancelling activities when their worker ends. */
const WORKER_SHUTDOWN = 'WORKER_SHUTDOWN';

/** @throws InvalidOptionsError that names the type, what was expected and what was given */
export function checkActivityLimits(limits: ActivityLimits): void {
  for (const [type, limit] of entriesOf('activities', limits)) {
    if (isPool(limit)) continue;
    checkActivityLimit(type, limit);
  }
}

/** A limit on a misspelled type would limit nothing. @throws InvalidOptionsError */
export function checkRegistered(limited: Iterable<string>, activities: object): void {
  if (typeof activities !== 'object' || activities === null) refuse('activities', 'an object of functions', activities);
  const types = Object.entries(activities).flatMap(([type, value]) => (typeof value === 'function' ? type : []));
  if (types.includes('default')) return; // the SDK calls it for every other type
  for (const type of limited) {
    if (!types.includes(type)) refuse('activities', `types of this worker's activities (${types.join(', ')})`, type);
  }
}

function isPool(limit: unknown): limit is PermitPool {
  return typeof (limit as Partial<PermitPool> | null)?.withPermit === 'function';
}

/** The permit pools of a worker's limits: one for each semaphore, however many types it limits. */
export class ActivityPools {
  private readonly limits: ReadonlyMap<string, ActivityLimit | PermitPool>;
  /** The pools that this class has made, by resource. */
  private readonly own = new Map<string, PermitPool>();

  constructor(limits: ActivityLimits) {
    this.limits = new Map(entriesOf('activities', limits) as [string, ActivityLimit | PermitPool][]);
  }

  get types(): string[] {
    return [...this.limits.keys()];
  }

  get semaphores(): DeclaredSemaphore[] {
    return [...this.limits.values()].flatMap((limit) => (isPool(limit) ? [] : limit.semaphore));
  }

  /** @param client the worker's own */
  open(client: Client | undefined): void {
    if (!client) return; // a worker that replays runs no activity
    for (const semaphore of this.semaphores) {
      const { resource } = semaphore;
      if (!this.own.has(resource)) this.own.set(resource, new PermitPool(new SemaphoreClient(client, semaphore)));
    }
  }

  /** How an activity of that type is limited. `undefined`: it is not. */
  of(type: string, args: unknown[]): { pool: PermitPool; options: PoolAcquireOptions } | undefined {
    const limit = this.limits.get(type);
    if (!limit || isPool(limit)) return limit && { pool: limit, options: {} };
    const pool = this.own.get(limit.semaphore.resource);
    if (!pool) throw ApplicationFailure.retryable('The worker has not begun to run.', 'WorkerNotRunning');
    const key = limit.key?.(...(args as never[]));
    const priority = typeof limit.priority === 'function' ? limit.priority(...(args as never[])) : limit.priority;
    return { pool, options: { ...(priority && { priority }), key } };
  }

  /** Gives all permits of its own pools back. */
  async close(): Promise<void> {
    const pools = [...this.own.values()];
    this.own.clear();
    await Promise.all(pools.map((pool) => pool.close()));
  }
}

/**
 * Has each limited activity wait for a permit before its own code runs, as `SemaphorePlugin` says. It comes after all other interceptors:
 * one that carries a Workflow's token into the activity would replace the permit's.
 */
export function limitActivities(pools: ActivityPools): ActivityInterceptorsFactory {
  return (context) => ({
    inbound: {
      async execute(input, next) {
        const limited = pools.of(context.info.activityType, input.args);
        if (!limited) return await next(input);
        checkNotHeld(limited.pool.resource, context.info, input.headers);
        return await runLimited(limited.pool, limited.options, context, () => next(input));
      },
    },
  });
}

/**
 * Refuses an activity that needs a permit of a resource of which its Workflow holds a permit meanwhile. It would wait for its own Workflow, at
 * the latest when as many Workflows as there are permits do the same. Which type calls which activity is not known before.
 */
function checkNotHeld(resource: string, { activityType, workflowType }: Context['info'], headers: Headers): void {
  const held = headers[HELD_HEADER];
  if (!held || !defaultPayloadConverter.fromPayload<string[]>(held).includes(resource)) return;
  const message =
    `The activity "${activityType}" is limited by "${resource}", and the Workflow "${workflowType}" calls it under a permit of ` +
    `"${resource}": each would wait for the other. Limit only one of the two, or limit the activity with its own resource.`;
  throw ApplicationFailure.create({ type: 'SelfDeadlockError', message, nonRetryable: true, details: [{ resource }] });
}

async function runLimited<T>(
  pool: PermitPool,
  options: PoolAcquireOptions,
  context: Context,
  run: () => Promise<T>,
): Promise<T> {
  const { info, cancellationSignal } = context;
  const stopHeartbeats = heartbeat(context);
  let hasPermit = false;
  try {
    return await pool.withPermit(
      async ({ signal, runId }) => {
        hasPermit = true;
        stopHeartbeats();
        // Its own code has its whole heartbeatTimeout for its first one.
        if (info.heartbeatTimeoutMs) context.heartbeat(info.heartbeatDetails);
        return await toldOfLoss(context, signal, run).catch((error: unknown) => {
          throw isStale(error, runId) ? lossOf(error) : error;
        });
      },
      {
        signal: cancellationSignal,
        ...within(info),
        ...options,
        purpose: info.activityType,
      },
    );
  } catch (error) {
    throw hasPermit ? error : whyNot(error, cancellationSignal);
  } finally {
    stopHeartbeats();
  }
}

/** The server takes what a permit's acquire refuses: longer times, and weights that it clamps. */
function within({
  startToCloseTimeoutMs,
  priority,
}: Context['info']): Pick<PoolAcquireOptions, 'timeout' | 'priority'> {
  const waitMs = Math.max(1, WAITING * startToCloseTimeoutMs);
  const { fairnessWeight } = priority ?? {};
  return {
    timeout: startToCloseTimeoutMs > 0 && waitMs <= MAX_DURATION_MS ? waitMs : undefined,
    priority: fairnessWeight
      ? { ...priority, fairnessWeight: Math.min(1_000, Math.max(0.001, fairnessWeight)) }
      : priority,
  };
}

/** Whether a fence has refused the token of this very permit. */
function isStale(error: unknown, runId: string): error is StaleTokenError {
  return error instanceof StaleTokenError && error.token.runId === runId;
}

/** The failure if the fence knows of the loss before this process does. The next attempt has another permit, and so another token. */
function lossOf(error: StaleTokenError): ApplicationFailure {
  const { message } = error;
  return ApplicationFailure.create({ type: 'PermitLostError', message, nonRetryable: false, cause: error });
}

/** Heartbeats with the details of the last attempt, which a heartbeat without details would erase. */
function heartbeat({ info, heartbeat }: Context): () => void {
  const { heartbeatTimeoutMs, heartbeatDetails } = info;
  if (!heartbeatTimeoutMs) return () => {};
  const timer = setInterval(() => heartbeat(heartbeatDetails), heartbeatTimeoutMs / HEARTBEATS);
  return () => clearInterval(timer);
}

/**
 * Reports a loss to the activity like a cancellation: with `cancellationSignal`, and with `cancelled`, for which `sleep` waits too. The SDK
 * makes a context for each attempt, so the change affects only this attempt.
 */
async function toldOfLoss<T>(context: Context, lost: AbortSignal, run: () => Promise<T>): Promise<T> {
  const { cancellationSignal, cancelled } = context;
  const both = new AbortController();
  const stop = new AbortController();
  const loss = new Promise<never>((_, reject) => {
    for (const signal of [cancellationSignal, lost]) {
      const abort = () => {
        both.abort(signal.reason);
        if (signal === lost) reject(new CancelledFailure(lost.reason.message, [], lost.reason));
      };
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { signal: stop.signal });
    }
  });
  const told = Promise.race([cancelled, loss]);
  told.catch(() => undefined); // the activity need not listen
  replace(context, { cancellationSignal: both.signal, cancelled: told });
  try {
    return await run();
  } finally {
    stop.abort();
    replace(context, { cancellationSignal, cancelled });
  }
}

/**
 * The SDK has no public way to cancel an attempt for our own reason, so properties of its context are redefined.
 * `test/unit/sdk-internals.test.ts` fails when a release of the SDK no longer lets us.
 */
function replace(context: Context, properties: Pick<Context, 'cancellationSignal' | 'cancelled'>): void {
  for (const [name, value] of Object.entries(properties)) {
    Object.defineProperty(context, name, { value, configurable: true, enumerable: true, writable: true });
  }
}

/** The failure that the server gets for an attempt that has not begun. */
function whyNot(error: unknown, { aborted }: AbortSignal): unknown {
  const failure = (type: string, message: string) => ApplicationFailure.create({ type, message, nonRetryable: false });
  if (aborted && error instanceof CancelledFailure && error.message === WORKER_SHUTDOWN) {
    return failure('WorkerShutdown', 'The worker shut down while this activity waited for a permit. It has not run.');
  }
  if (error instanceof PermitTimeoutError) {
    return failure(
      error.name,
      `${error.message} The activity has not run. It waits for half of its startToCloseTimeout.`,
    );
  }
  return error;
}
