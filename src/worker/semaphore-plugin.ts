import { readFile } from 'node:fs/promises';
import type { Client } from '@temporalio/client';
import type { BundleOptions, Worker, WorkerOptions, WorkerPlugin } from '@temporalio/worker';
import { pause } from '../client/server/clock';
import { Pollers } from '../client/server/pollers';
import { Server } from '../client/server/server';
import { fencingActivityInterceptor, fencingInterceptors } from '../fencing/activity-interceptor';
import { asIs, type Checks, checkOptions, nonEmpty, refuse } from '../shared/check';
import { checkAgreement, checkWorkflowLimits, type DeclaredSemaphore } from '../shared/declared-limits';
import { DEFAULT_TASK_QUEUE } from '../shared/protocol';
import type { WorkflowLimits } from '../workflows/holder/limit-workflows';
import { activityPurpose } from './activity-purpose';
import { runBeside } from './beside';
import { checkBundle } from './bundle-limits';
import { withoutDeadWaiters } from './dead-waiters';
import {
  type ActivityLimits,
  ActivityPools,
  checkActivityLimits,
  checkRegistered,
  limitActivities,
} from './limit-activities';
import { checkPermitWorker, createPermitWorker, type PermitWorkerOptions } from './permit-worker';

/**
 * All limits of an application. Write them with `satisfies`, so that the names and the arguments of `key` are checked.
 *
 * @example
 * ```ts
 * export const limits = {
 *   workflows: { trainModel: { semaphore: gpus, timeout: '1 day' } },
 * } satisfies Limits<typeof import('./workflows')>;
 * ```
 */
export interface Limits<Workflows = Record<string, never>, Activities = Record<string, never>> {
  /** The limits of Workflows, by type. */
  readonly workflows?: WorkflowLimits<Workflows> | undefined;
  /** The limits of activities, by type. */
  readonly activities?: ActivityLimits<Activities> | undefined;
}

/** What a {@link SemaphorePlugin} does. */
export interface SemaphorePluginOptions {
  /** The task queue on which the permits of your semaphores run: their own option `taskQueue`. @default "permits" */
  taskQueue?: string | undefined;
  /**
   * The permit worker that the plugin runs on that task queue, in the process of your worker: its further options, such as
   * `maxCachedWorkflows`. `false` if a dedicated permit worker runs the permits. The plugin then asks, 5 seconds after your worker has
   * started, whether any worker polls the task queue, and emits a Node warning with the code `TEMPORAL_SEMAPHORE_UNPOLLED` if none does.
   * @default a permit worker with the connection, namespace and data converter of your worker
   */
  permitWorker?: false | Omit<PermitWorkerOptions, 'taskQueue'> | undefined;
  /** How many Workflows of a type run at once. The same must be in the Workflow bundle: give `limitsPath` too. */
  workflows?: WorkflowLimits | undefined;
  /**
   * The path of your module that exports `interceptors = limitWorkflows(…)`, as `require.resolve` gives it. The Workflow bundle gets
   * it. If you bundle ahead, give the plugin to `bundleWorkflowCode`.
   */
  limitsPath?: string | undefined;
  /** How many activities of a type run at once, in all workers. */
  activities?: ActivityLimits | undefined;
}

const OPTIONS = {
  taskQueue: nonEmpty,
  permitWorker: permitWorkerOption,
  workflows: asIs<WorkflowLimits>(),
  limitsPath: nonEmpty,
  activities: asIs<ActivityLimits>(),
} satisfies Checks<SemaphorePluginOptions>;

/**
 * All that a worker needs for semaphores. It limits how many Workflows and activities of a type run at once, in all workers, without a
 * change to their code; it runs the permits, on the task queue `permits`; activities that are called under a permit have its fencing
 * token (`currentFencingToken()`); and a permit that an activity acquires with a `SemaphoreClient` has the activity and its Workflow as
 * its purpose, unless the activity names another.
 *
 * The permit worker runs for as long as your worker, with the same connection, namespace and data converter. When the permit worker ends,
 * your worker shuts down; when it fails, your worker's `run()` rejects with the reason. On SIGTERM the SDK shuts both down at once. A release that is sent while
 * your worker drains takes effect when the next permit worker starts. If that matters, run a dedicated permit worker.
 *
 * An activity waits for a permit before its own code runs, and adds nothing to its Workflow's history. While it waits, it occupies an
 * activity slot of its worker, and its `startToCloseTimeout` runs. If a `heartbeatTimeout` is set, it heartbeats with the details of
 * its last attempt. It stops waiting when it is cancelled. When its worker shuts down, or half of its `startToCloseTimeout` has
 * passed, it fails with a retryable failure (`WorkerShutdown`, `PermitTimeoutError`), and its retry policy decides. In the
 * activity, `Context.current()` reports a lost permit like a cancellation (`cancellationSignal`, `cancelled`, `sleep`); then it fails
 * with a retryable `PermitLostError`, whatever it returned. If its Workflow calls it under a permit of the same resource, it fails with a non-retryable
 * `SelfDeadlockError`: each would wait for the other.
 *
 * `Worker.create` refuses a limit of a type that the worker does not have, limits that the Workflow bundle lacks, and two declarations of
 * one resource that differ. A worker without Workflows leaves `workflows` alone, and one without activities `activities`. A worker that
 * has some of the limited types names those alone. Put it after your other plugins. One plugin serves one worker.
 *
 * Not guaranteed: anything for an activity that completes asynchronously. Its permit is free when its function has returned.
 *
 * @example
 * ```ts
 * const plugin = new SemaphorePlugin({ ...limits, limitsPath: require.resolve('./limits') });
 * const worker = await Worker.create({ connection, taskQueue: 'training', workflowsPath, activities, plugins: [plugin] });
 * ```
 */
export class SemaphorePlugin implements WorkerPlugin {
  readonly name = 'temporal-semaphore';
  private readonly taskQueue: string;
  private readonly pools: ActivityPools;
  private readonly semaphores: readonly DeclaredSemaphore[];
  /** The task queue of the worker that the plugin serves, once known: a bundle may also be made ahead. */
  private ownTaskQueue: string | undefined;
  private isRunning = false;

  /** @throws InvalidOptionsError that names the option, what it expects and what it got */
  constructor(private readonly options: SemaphorePluginOptions = {}) {
    const checked = checkOptions(options, OPTIONS);
    const { taskQueue = DEFAULT_TASK_QUEUE, permitWorker, workflows = {}, activities = {} } = checked;
    if (permitWorker !== false) checkPermitWorker({ ...permitWorker, taskQueue });
    checkWorkflowLimits(workflows);
    checkActivityLimits(activities);
    this.taskQueue = taskQueue;
    this.pools = new ActivityPools(activities);
    const limited = Object.values<{ semaphore: DeclaredSemaphore } | undefined>(workflows);
    this.semaphores = [...limited.flatMap((limit) => limit?.semaphore ?? []), ...this.pools.semaphores];
    checkAgreement(this.semaphores);
  }

  async configureWorker(options: WorkerOptions): Promise<WorkerOptions> {
    const { permitWorker, workflows } = this.options;
    this.ownTaskQueue = options.taskQueue;
    if (permitWorker !== false && options.taskQueue === this.taskQueue) {
      refuse(
        'taskQueue',
        'another than your own worker\'s, since all workers of a task queue must run the same Workflows; or permitWorker: false, and in your Workflows file export * from "temporal-semaphore/workflows"',
        options.taskQueue,
      );
    }
    const { workflowBundle: bundle } = options;
    if (bundle && workflows) {
      const code = 'code' in bundle ? bundle.code : await readFile(bundle.codePath, 'utf8');
      checkBundle(code, workflows, options.taskQueue);
    }
    const { interceptors, activities } = options;
    if (!activities) return options;
    checkRegistered(this.pools.types, activities);
    const before = (interceptors?.activity ?? []).filter((factory) => factory !== fencingActivityInterceptor);
    // The permit's token comes after a Workflow's, which it replaces.
    const activity = [...before, activityPurpose, fencingActivityInterceptor, limitActivities(this.pools)];
    return { ...options, interceptors: { ...interceptors, activity } };
  }

  configureBundler(options: BundleOptions): BundleOptions {
    const { workflows, limitsPath } = this.options;
    const before = options.workflowInterceptorModules ?? [];
    const ours = [...fencingInterceptors.workflowModules, ...(limitsPath === undefined ? [] : [limitsPath])];
    const workflowInterceptorModules = [...new Set([...before, ...ours])];
    if (!workflows) return { ...options, workflowInterceptorModules };
    const { webpackConfigHook = (config) => config } = options;
    return {
      ...options,
      workflowInterceptorModules,
      webpackConfigHook: (config) => {
        const hooked = webpackConfigHook(config);
        return {
          ...hooked,
          plugins: [...(hooked.plugins ?? []), checkEmitted((code) => checkBundle(code, workflows, this.ownTaskQueue))],
        };
      },
    };
  }

  async runWorker(worker: Worker, next: (worker: Worker) => Promise<void>): Promise<void> {
    const { permitWorker } = this.options;
    const { taskQueue } = this;
    if (this.isRunning) {
      const create = async () => refuse('plugins', 'a SemaphorePlugin for each worker', 'one that another worker runs');
      return await runBeside(worker, () => next(worker), { taskQueue, create });
    }
    this.isRunning = true;
    const run = async () => {
      const ended = new AbortController();
      const warned = warnIfUnpolled(worker.client, this.servedElsewhere(), ended.signal);
      this.pools.open(worker.client);
      try {
        await withoutDeadWaiters(worker, next);
      } finally {
        ended.abort();
        await Promise.all([warned, this.pools.close()]); // while the connection is open, and a worker runs the permits
      }
    };
    try {
      if (permitWorker === false) return await run();
      await runBeside(worker, run, {
        taskQueue,
        namespace: permitWorker?.namespace,
        // Those that your worker has in the end: plugins after this one may have changed them.
        create: async () => {
          const { connection, namespace, dataConverter } = worker.options;
          return await createPermitWorker({ connection, namespace, dataConverter, ...permitWorker, taskQueue });
        },
      });
    } finally {
      this.isRunning = false;
    }
  }

  /** The task queues of permits that neither your worker nor the plugin's serves. */
  private servedElsewhere(): Set<string> {
    const all = new Set([this.taskQueue, ...this.semaphores.map(({ options }) => options.taskQueue)]);
    if (this.options.permitWorker !== false) all.delete(this.taskQueue);
    if (this.ownTaskQueue !== undefined) all.delete(this.ownTaskQueue);
    return all;
  }
}

function permitWorkerOption(value: unknown): SemaphorePluginOptions['permitWorker'] {
  if (value === false || (typeof value === 'object' && value !== null))
    return value as Omit<PermitWorkerOptions, 'taskQueue'> | false;
  return refuse('permitWorker', 'options of the permit worker, or false', value);
}

/** Processes that start at the same time have this long until their worker polls. */
const START_MS = 3_000;

/** Warns of each of these task queues that no worker polls. @param client none for a worker that replays */
async function warnIfUnpolled(client: Client | undefined, taskQueues: Iterable<string>, ended: AbortSignal) {
  if (!client) return;
  const server = new Server(client);
  await pause(START_MS, ended);
  await Promise.all([...taskQueues].map((taskQueue) => new Pollers(server, taskQueue).warn(ended)));
}

/** A plugin of webpack, which the SDK's bundler is: what a check throws is what the bundler throws. */
function checkEmitted(check: (code: string) => void) {
  type Compilation = { assets: Record<string, { source(): string | Buffer }> };
  type Compiler = { hooks: { emit: { tap(name: string, run: (compilation: Compilation) => void): void } } };
  return {
    apply(compiler: Compiler): void {
      compiler.hooks.emit.tap('temporal-semaphore', ({ assets }) => {
        for (const asset of Object.values(assets)) check(String(asset.source()));
      });
    },
  };
}
