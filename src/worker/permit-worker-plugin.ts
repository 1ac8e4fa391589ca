import type { Worker, WorkerOptions, WorkerPlugin } from '@temporalio/worker';
import { refuse } from '@/shared/invalid-options';
import { createPermitWorker, type PermitWorkerOptions } from './permit-worker';

/**
 * Runs a permit worker beside your own worker, for as long as yours runs, with the same connection, namespace and data
 * converter. A worker has one task queue and one set of Workflows, so the plugin adds a second worker and leaves yours
 * unchanged. If the permit worker fails, yours shuts down, and its `run()` rejects with the reason. One plugin serves one
 * worker.
 *
 * On SIGTERM the SDK shuts both down at once. A release that is sent while your worker drains takes effect when the next
 * permit worker starts. Where that matters, run the permit worker in a process of its own.
 *
 * @example
 * ```ts
 * const plugins = [new PermitWorkerPlugin({ taskQueue: 'permits' })];
 * const worker = await Worker.create({ connection, taskQueue: 'training', workflowsPath, activities, plugins });
 * ```
 */
export class PermitWorkerPlugin implements WorkerPlugin {
  readonly name = 'temporal-semaphore.permit-worker';
  private shared: Pick<PermitWorkerOptions, 'connection' | 'namespace' | 'dataConverter'> = {};

  /** @param options the permit worker's own options; `taskQueue` must differ from your worker's */
  constructor(private readonly options: PermitWorkerOptions) {
    if (typeof options?.taskQueue !== 'string' || options.taskQueue === '') {
      refuse('taskQueue', 'a non-empty string', options?.taskQueue);
    }
  }

  configureWorker(options: WorkerOptions): WorkerOptions {
    if (options.taskQueue === this.options.taskQueue) {
      refuse(
        'taskQueue',
        "another than your own worker's: all workers of one must run the same Workflows",
        options.taskQueue,
      );
    }
    const { connection, namespace, dataConverter } = options;
    this.shared = { connection, namespace, dataConverter };
    return options;
  }

  async runWorker(worker: Worker, next: (worker: Worker) => Promise<void>): Promise<void> {
    const permits = await createPermitWorker({ ...this.shared, ...this.options });
    const running = permits.run();
    running.catch(() => {
      if (worker.getState() === 'RUNNING') worker.shutdown();
    });
    try {
      await next(worker);
    } finally {
      if (permits.getState() === 'RUNNING') permits.shutdown();
      await running;
    }
  }
}
