import {
  CombinedWorkerRunError,
  DefaultLogger,
  type LogLevel,
  makeTelemetryFilterString,
  Runtime,
  Worker,
  type WorkerOptions,
  type WorkflowBundle,
} from '@temporalio/worker';
import * as activities from './activities';
import { bundleWorkflows } from './workflow-bundles';

/** Where `pnpm worker` and `pnpm start` meet. */
export const TASK_QUEUE = 'temporal-semaphore-example';

/** Leaves signals to us, and the SDK's logs out but for what matters from `level` up. Call it before anything else of the SDK. */
export function installRuntime(level: LogLevel): void {
  Runtime.install({
    logger: new DefaultLogger(level),
    shutdownSignals: [],
    // The core warns of each activity that outlived its cancelled Workflow, which is how every interrupted run ends.
    telemetryOptions: { logging: { filter: makeTelemetryFilterString({ core: 'ERROR' }), console: {} } },
  });
}

/** Bundles the Workflows: the slow part of starting a worker, which needs no server yet. */
export async function bundleExample(): Promise<WorkflowBundle> {
  return await bundleWorkflows(require.resolve('./workflows'));
}

/** Runs a worker for the example consumers and their permits until `work` is done. */
export async function withExampleWorker<T>(
  options: Pick<WorkerOptions, 'connection' | 'namespace' | 'taskQueue' | 'workflowBundle'>,
  work: () => Promise<T>,
): Promise<T> {
  const worker = await Worker.create({ ...options, activities, shutdownForceTime: '5s' });
  try {
    return await worker.runUntil(work());
  } catch (error) {
    // When both fail, as they do when the server is gone, the work knows why.
    throw error instanceof CombinedWorkerRunError ? (error.cause.innerError ?? error) : error;
  }
}
