import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { NativeConnection, Runtime, Worker, type WorkerOptions, type WorkerPlugin } from '@temporalio/worker';
import { version } from '@temporalio/worker/package.json';
import { entryPath } from '../fencing/entry-path';
import { nonEmpty, refuse, refuseKind } from '../shared/check';
import { DEFAULT_TASK_QUEUE } from '../shared/protocol';
import { withoutDeadWaiters } from './dead-waiters';

/** This library decides what a permit worker runs, so the caller can't set these options of the SDK. */
const OURS = ['activities', 'enableNonLocalActivities', 'nexusServices', 'workflowBundle', 'workflowsPath'] as const;

/** An activity that is never called, because the SDK warns of a worker without activities. With local activities only, it polls for none. */
const WITHOUT_WARNING = { activities: { none: async () => {} }, enableNonLocalActivities: false };

/** A plugin, the SDK's public means to do something for as long as a worker runs. It has no part in the bundle. */
const DEAD_WAITERS: WorkerPlugin = { name: 'temporal-semaphore-dead-waiters', runWorker: withoutDeadWaiters };

/** The defaults in which a permit worker differs from other workers. */
export const PERMIT_WORKER_DEFAULTS = {
  /**
   * How long the server keeps a task for the worker that has the permit cached, before it gives the task to another. The
   * SDK's default of 10 seconds suits long histories. Those of permits are short, and after a crash a release would wait all
   * that time.
   */
  stickyQueueScheduleToStartTimeout: '1s',
  /**
   * The longest time that the SDK allows. By default, the SDK interrupts a Workflow's code after 5 seconds, and a worker that the machine
   * stops for longer may be in the middle of such code. What the interrupted code leaves behind corrupts other Workflows: their cancellations
   * are lost (SDK 1.24.0; its types lack this option). No code of permits runs for long.
   */
  isolateExecutionTimeout: '4294967295ms',
} as const;

/**
 * The SDK's `WorkerOptions`, without those that say what to run. Two are easily missed. The default `connection` is
 * unencrypted, to `localhost:7233`, and the worker closes it when it ends. `namespace` is `"default"` by default; a
 * connection does not know its namespace. `stickyQueueScheduleToStartTimeout` is 1 second by default here, and the SDK's limit of 5
 * seconds for a Workflow's code does not apply. Versioned workers (`workerDeploymentOptions`) run permits and queues in their current
 * version: the default versioning behaviour is `AUTO_UPGRADE` here, whatever you name.
 */
export interface PermitWorkerOptions extends Omit<WorkerOptions, (typeof OURS)[number] | 'taskQueue'> {
  /** The task queue on which permits run: that of the semaphores. @default "permits" */
  taskQueue?: string | undefined;
  /**
   * The path of a limits file, which the worker keeps in force while it runs: it compares the file with the limits in force at its start and
   * then each minute, and corrects each difference, as `temporal-semaphore apply` does. It reads the file again when the file changes. Of two
   * files, the file with the greater version wins. The worker reports what it does, and what it can't do, through the logger of the SDK's
   * `Runtime`.
   * @default none
   */
  limits?: string | undefined;
}

/**
 * Makes a worker that runs the permit Workflows, and nothing else, on a dedicated task queue. Use it when permits
 * should not depend on the workers of any one application. An application that runs permits on its own task queue does
 * not need it: its Workflows file has `export * from 'temporal-semaphore/workflows'`.
 *
 * Like every Worker, it starts with `run()`. On SIGINT, SIGTERM, SIGQUIT or SIGUSR2 (the default `shutdownSignals` of the
 * SDK's `Runtime`) it takes no more tasks and completes those under way, and then `run()` resolves. This ends no permit.
 * While no permit worker runs, renewals, releases and ended leases wait at the server, and take effect when the next
 * worker starts. Until then, only `maxHold` ends a permit.
 *
 * This package has the Workflows bundled for the SDK version it was built with. With any other version, or with options
 * that change the bundle (`bundlerOptions`, `plugins`, a converter's path, Workflow interceptors), this function bundles
 * them, which takes a second or two.
 *
 * @returns the SDK's `Worker`, not yet running
 * @throws InvalidOptionsError that names the option, what it expects and what it got
 * @throws the error of the SDK's `Worker.create`, such as a `TransportError` when no server answers
 *
 * @example
 * ```ts
 * const connection = await NativeConnection.connect({ address: 'localhost:7233' });
 * try {
 *   const worker = await createPermitWorker({ connection });
 *   await worker.run();
 * } finally {
 *   await connection.close();
 * }
 * ```
 */
export async function createPermitWorker(options: PermitWorkerOptions): Promise<Worker> {
  checkPermitWorker(options);
  const { taskQueue = DEFAULT_TASK_QUEUE, limits, ...rest } = options;
  const keep = limits === undefined ? undefined : await keeping(limits, taskQueue);
  const worker = await Worker.create({
    ...PERMIT_WORKER_DEFAULTS,
    ...rest,
    taskQueue,
    ...WITHOUT_WARNING,
    ...permitWorkflows(options),
    ...inCurrentVersion(options),
    plugins: [...(options.plugins ?? []), DEAD_WAITERS],
  }).catch((error: Error) => {
    if (!REGISTERED_TWICE.test(error.message)) throw error;
    return refuse(
      'taskQueue',
      'a task queue that this connection has no worker for yet; give the second SemaphorePlugin of a process permitWorker: false',
      taskQueue,
    );
  });
  keep?.(worker);
  return worker;
}

/** Reads the file, and has a worker keep it in force while it runs. @throws InvalidOptionsError */
async function keeping(path: string, ownTaskQueue: string): Promise<(worker: Worker) => void> {
  // Loaded only here, because it contains a YAML parser.
  const { LimitsKeeper } = await import('../limits/limits-keeper.js');
  const { logger: log } = Runtime.instance();
  const keeper = new LimitsKeeper(path, { log, ownTaskQueue });
  return (worker) => {
    const run = worker.run.bind(worker);
    const { client } = worker; // none for a worker that replays
    if (client) worker.run = async () => await keeper.during(run, client);
  };
}

/** The SDK's words for a second worker of one connection, namespace and task queue. */
const REGISTERED_TWICE = /overlapping worker task types/;

/** @throws InvalidOptionsError */
export function checkPermitWorker(options: PermitWorkerOptions): void {
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  const { connection, namespace, taskQueue, limits } = options;
  if (taskQueue !== undefined) nonEmpty(taskQueue, 'taskQueue');
  if (namespace !== undefined) nonEmpty(namespace, 'namespace');
  if (limits !== undefined) nonEmpty(limits, 'limits');
  if (connection !== undefined && !(connection instanceof NativeConnection)) {
    refuseKind('connection', 'a NativeConnection of @temporalio/worker', connection);
  }
  // The types forbid these options, but JavaScript can pass them, and this worker would ignore them.
  const given: Partial<WorkerOptions> = options;
  for (const key of OURS) {
    if (given[key] !== undefined) refuse(key, 'nothing (a permit worker runs permits only)', typeof given[key]);
  }
}

/**
 * Sets the versioning behaviour. A queue serves the callers of every version, and outlives the workers of the version that started it. The
 * Workflows can't set the behaviour themselves: the server refuses it from a worker without versions.
 */
export function inCurrentVersion({
  workerDeploymentOptions,
}: PermitWorkerOptions): Pick<WorkerOptions, 'workerDeploymentOptions'> {
  if (!workerDeploymentOptions?.useWorkerVersioning) return {};
  return { workerDeploymentOptions: { ...workerDeploymentOptions, defaultVersioningBehavior: 'AUTO_UPGRADE' } };
}

/** The prebuilt bundle, if it exists. There is none for other SDK versions, nor when this code runs from source. */
function permitWorkflows(options: PermitWorkerOptions): Pick<WorkerOptions, 'workflowBundle' | 'workflowsPath'> {
  const workflowsPath = entryPath('workflows');
  const codePath = prebuiltBundle(dirname(workflowsPath));
  return !changesBundle(options) && existsSync(codePath) ? { workflowBundle: { codePath } } : { workflowsPath };
}

/** With a prebuilt bundle, the SDK ignores these options and only warns. */
function changesBundle({ bundlerOptions, connection, dataConverter, interceptors, plugins }: PermitWorkerOptions) {
  return Boolean(
    bundlerOptions ||
      dataConverter?.payloadConverterPath ||
      dataConverter?.failureConverterPath ||
      interceptors?.workflowModules?.length ||
      plugins?.length ||
      connection?.plugins.length,
  );
}

/**
 * The path of the prebuilt bundle of the permit Workflows in the built package. A bundle runs only on the SDK version that
 * made it, so its name has that version. With another SDK version installed, there is no such file.
 *
 * @param directory the package's `lib`
 */
export function prebuiltBundle(directory: string): string {
  return join(directory, `permit-workflows.sdk-${version}.js`);
}
