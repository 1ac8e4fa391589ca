import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';
import { refuse } from '@/shared/invalid-options';
import { prebuiltBundle } from './prebuilt-bundle';

/** What a permit worker runs is this library's to say, so these of the SDK's options are not for its user. */
const OURS = ['activities', 'nexusServices', 'workflowBundle', 'workflowsPath'] as const;

/**
 * How long the server keeps a task for the worker that knows the permit, before any other may have it. The SDK's default,
 * 10 seconds, is for long histories. Those of permits are short, and after a crash a release would wait all that time.
 */
const STICKY_FOR = '1s';

/**
 * The SDK's `WorkerOptions`, without those that say what to run. Two that are easily missed: `connection` (default: an
 * unencrypted one to `localhost:7233`, which the worker closes when it ends) and `namespace` (default `"default"`; a
 * connection does not know its namespace). One has another default: `stickyQueueScheduleToStartTimeout`, 1 second.
 */
export interface PermitWorkerOptions extends Omit<WorkerOptions, (typeof OURS)[number]> {
  /** Where permits run: what semaphores have as their own `taskQueue` option. */
  taskQueue: string;
}

/**
 * Makes a worker that runs the permit Workflows, and nothing else, on a task queue of their own. Use it when permits
 * should not depend on the workers of any one application. An application that keeps its permits on its own task queue
 * has no need of it: its Workflows file has `export * from 'temporal-semaphore/workflows'`.
 *
 * Like every Worker, it starts with `run()`, and on SIGINT, SIGTERM, SIGQUIT or SIGUSR2 (the default `shutdownSignals` of
 * the SDK's `Runtime`) it takes no more tasks, completes those under way, and `run()` resolves. No permit ends by that.
 * While no permit worker is up, what is sent to permits waits at the server: renewals, releases and ended leases take
 * effect when the next worker starts. Only `maxHold` ends a permit until then.
 *
 * The Workflows come bundled in this package for the SDK version it was built with. With any other version, or with
 * options that change the bundle (`bundlerOptions`, `plugins`, a converter's path, Workflow interceptors), they are
 * bundled here and now, which takes a second or two.
 *
 * @returns the SDK's `Worker`, not yet running
 * @throws InvalidOptionsError that says what was expected and what came
 * @throws whatever the SDK's `Worker.create` throws, such as a `TransportError` when no server answers
 *
 * @example
 * ```ts
 * const connection = await NativeConnection.connect({ address: 'localhost:7233' });
 * try {
 *   const worker = await createPermitWorker({ connection, taskQueue: 'permits' });
 *   await worker.run();
 * } finally {
 *   await connection.close();
 * }
 * ```
 */
export async function createPermitWorker(options: PermitWorkerOptions): Promise<Worker> {
  check(options);
  return await Worker.create({
    stickyQueueScheduleToStartTimeout: STICKY_FOR,
    ...options,
    ...permitWorkflows(options),
  });
}

function check(options: PermitWorkerOptions): void {
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  const { connection, namespace, taskQueue } = options;
  if (typeof taskQueue !== 'string' || taskQueue === '') refuse('taskQueue', 'a non-empty string', taskQueue);
  if (namespace !== undefined && (typeof namespace !== 'string' || namespace === '')) {
    refuse('namespace', 'a non-empty string', namespace);
  }
  if (connection !== undefined && !(connection instanceof NativeConnection)) {
    // Its name only: what it holds is long, may be circular, and may hold credentials.
    refuse('connection', 'a NativeConnection of @temporalio/worker', nameOf(connection));
  }
  // The types say so too, but JavaScript can pass them, and the worker would do something else than asked.
  const given: WorkerOptions = options;
  for (const key of OURS) {
    if (given[key] !== undefined) refuse(key, 'nothing (a permit worker runs permits only)', typeof given[key]);
  }
}

function nameOf(value: object | null): string {
  return value?.constructor?.name ?? typeof value;
}

/** Ready-made if possible. There is no ready-made bundle for other SDK versions, nor when this runs from source. */
function permitWorkflows(options: PermitWorkerOptions): Pick<WorkerOptions, 'workflowBundle' | 'workflowsPath'> {
  const codePath = prebuiltBundle(join(__dirname, '..'));
  return !changesBundle(options) && existsSync(codePath)
    ? { workflowBundle: { codePath } }
    : { workflowsPath: require.resolve('../workflows') };
}

/** The SDK passes over these options, with no more than a warning, when it is given a ready-made bundle. */
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
