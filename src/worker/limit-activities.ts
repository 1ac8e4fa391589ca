import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { ActivityInterceptorsFactory, WorkerOptions, WorkerPlugin } from '@temporalio/worker';
import type { PermitPool } from '@/client/pool/permit-pool';
import type { PoolAcquireOptions } from '@/client/pool/pool-options';
import { PermitTimeoutError } from '../client/errors';
import { MAX_DURATION_MS, refuse } from '../shared/check';
import { StaleTokenError } from '../shared/fencing-token';

type Context = Parameters<ActivityInterceptorsFactory>[0];

/** The pool for each limited type of activity. Several types may share one. */
export type ActivityLimits = Readonly<Record<string, PermitPool>>;

/** A waiting activity heartbeats so many times in each `heartbeatTimeout`. */
const HEARTBEATS = 3;

/** It waits for at most this part of its `startToCloseTimeout`: the rest is for its own code. */
const WAITING = 0.5;

/** The SDK's reason for cancelling activities when their worker ends. */
const WORKER_SHUTDOWN = 'WORKER_SHUTDOWN';

/**
 * Limits how many activities of a type run at once, over all workers, without a change to Workflow code: an activity waits for
 * a permit of its pool before its own code runs. The Workflow's history does not grow by it.
 *
 * While it waits, it occupies an activity slot of its worker, and its `startToCloseTimeout` runs. It heartbeats, where a
 * `heartbeatTimeout` is set, with the details of its last attempt. It stops waiting when it is cancelled. When its worker shuts
 * down, or half of its `startToCloseTimeout` has passed, it fails with a retryable failure (`WorkerShutdown`,
 * `PermitTimeoutError`), and its retry policy decides.
 *
 * In the activity, `Context.current().cancellationSignal` aborts also when the permit is lost, and `currentFencingToken()` is
 * the permit's. An activity whose permit was lost fails with a retryable `PermitLostError`, whatever it returned.
 *
 * Put it after all other activity interceptors, as the plugin does: one that carries a Workflow's token into the activity would
 * replace the permit's.
 *
 * Not guaranteed: anything for an activity that completes asynchronously. Its permit is free when its function has returned.
 * The pools are yours to close, after the worker has ended.
 *
 * @param activities those of the worker
 * @throws InvalidOptionsError that says what was expected and what came; also when a limited type is none of `activities`
 *
 * @example
 * ```ts
 * const pool = new PermitPool(new SemaphoreClient(client, 'vendor-api', { capacity: 20, taskQueue: 'permits' }));
 * const interceptors = { activity: [limitActivities({ callVendor: pool }, activities)] };
 * const worker = await Worker.create({ taskQueue, workflowsPath, activities, interceptors });
 * ```
 */
export function limitActivities(limits: ActivityLimits, activities: object): ActivityInterceptorsFactory {
  const pools = check(limits);
  checkRegistered(pools, activities);
  return (context) => ({
    inbound: {
      async execute(input, next) {
        const pool = pools.get(context.info.activityType);
        return pool ? await runLimited(pool, context, () => next(input)) : await next(input);
      },
    },
  });
}

/**
 * {@link limitActivities} as a plugin of a worker: `plugins: [new LimitActivitiesPlugin({ callVendor: pool })]`. `Worker.create`
 * throws its errors. It leaves a worker without activities as it is.
 */
export class LimitActivitiesPlugin implements WorkerPlugin {
  readonly name = 'temporal-semaphore.limit-activities';

  /** @throws InvalidOptionsError that says what was expected and what came */
  constructor(private readonly limits: ActivityLimits) {
    check(limits);
  }

  configureWorker(options: WorkerOptions): WorkerOptions {
    const { interceptors, activities } = options;
    if (!activities) return options;
    const activity = [...(interceptors?.activity ?? []), limitActivities(this.limits, activities)];
    return { ...options, interceptors: { ...interceptors, activity } };
  }
}

function check(limits: ActivityLimits): ReadonlyMap<string, PermitPool> {
  if (typeof limits !== 'object' || limits === null) refuse('limits', 'an object of pools by activity type', limits);
  for (const [type, pool] of Object.entries(limits)) {
    if (typeof pool?.withPermit !== 'function') refuse(type, 'a PermitPool', typeof pool);
  }
  return new Map(Object.entries(limits));
}

/** A limit on a misspelled type would limit nothing. */
function checkRegistered(pools: ReadonlyMap<string, PermitPool>, activities: object): void {
  if (typeof activities !== 'object' || activities === null) refuse('activities', 'an object of functions', activities);
  const types = Object.entries(activities).flatMap(([type, value]) => (typeof value === 'function' ? type : []));
  if (types.includes('default')) return; // the SDK calls it for every other type
  for (const type of pools.keys()) {
    if (!types.includes(type)) refuse('limits', `types of this worker's activities (${types.join(', ')})`, type);
  }
}

async function runLimited<T>(pool: PermitPool, context: Context, run: () => Promise<T>): Promise<T> {
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
        return await withSignal(context, signal, run).catch((error: unknown) => {
          throw isStale(error, runId) ? lossOf(error) : error;
        });
      },
      {
        signal: cancellationSignal,
        ...within(info),
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

/** The fence knows of the loss before this process. The next attempt has another permit, and so another token. */
function lossOf(error: StaleTokenError): ApplicationFailure {
  const { message } = error;
  return ApplicationFailure.create({ type: 'PermitLostError', message, nonRetryable: false, cause: error });
}

/** Without details, a heartbeat would erase those of the last attempt. */
function heartbeat({ info, heartbeat }: Context): () => void {
  const { heartbeatTimeoutMs, heartbeatDetails } = info;
  if (!heartbeatTimeoutMs) return () => {};
  const timer = setInterval(() => heartbeat(heartbeatDetails), heartbeatTimeoutMs / HEARTBEATS);
  return () => clearInterval(timer);
}

/** The SDK makes a context for each attempt, so what is changed here is this attempt's alone. */
async function withSignal<T>(context: Context, lost: AbortSignal, run: () => Promise<T>): Promise<T> {
  const cancelled = context.cancellationSignal;
  const both = new AbortController();
  const stop = new AbortController();
  for (const signal of [cancelled, lost]) {
    if (signal.aborted) both.abort(signal.reason);
    else signal.addEventListener('abort', () => both.abort(signal.reason), { signal: stop.signal });
  }
  replaceSignal(context, both.signal);
  try {
    return await run();
  } finally {
    stop.abort();
    replaceSignal(context, cancelled);
  }
}

/**
 * The SDK has no public way to abort an attempt's signal for a reason of ours, so the property of its context is defined anew.
 * `test/unit/sdk-internals.test.ts` fails when a release of the SDK no longer lets us.
 */
function replaceSignal(context: Context, value: AbortSignal): void {
  Object.defineProperty(context, 'cancellationSignal', { value, configurable: true, enumerable: true, writable: true });
}

/** What the server is told of an attempt that has not begun. */
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
