import { setTimeout as delay } from 'node:timers/promises';
import type { Worker, WorkerOptions, WorkerPlugin } from '@temporalio/worker';
import { refuse } from '@/shared/check';
import { checkPermitWorker, createPermitWorker, type PermitWorkerOptions } from './permit-worker';

/** How soon your worker ends when the permit worker has ended before yours began. */
const FOLLOW_MS = 100;

/**
 * Runs a permit worker beside your own worker, for as long as yours runs, with the same connection, namespace and data
 * converter. A worker has one task queue and one set of Workflows, so the plugin adds a second worker and leaves yours
 * unchanged. When the permit worker ends, yours shuts down; when it fails, the `run()` of yours rejects with the reason. One plugin serves one
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

  /**
   * @param options the permit worker's own options; `taskQueue` must differ from your worker's
   * @throws InvalidOptionsError that names the option, what it expects and what it got
   */
  constructor(private readonly options: PermitWorkerOptions) {
    checkPermitWorker(options);
  }

  configureWorker(options: WorkerOptions): WorkerOptions {
    if (options.taskQueue === this.options.taskQueue) {
      refuse(
        'taskQueue',
        "another than your own worker's: all workers of one must run the same Workflows",
        options.taskQueue,
      );
    }
    return options;
  }

  async runWorker(worker: Worker, next: (worker: Worker) => Promise<void>): Promise<void> {
    let hasEnded = false;
    const follow = async () => {
      while (!hasEnded && worker.getState() === 'INITIALIZED') await delay(FOLLOW_MS); // other plugins may come before its start
      if (worker.getState() === 'RUNNING') worker.shutdown();
    };
    const permits = await this.create(worker).catch(async (error) => {
      // A worker that never ran would keep the connection from being closed.
      const ended = next(worker).finally(() => {
        hasEnded = true;
      });
      await Promise.all([ended, follow()]);
      throw error;
    });
    const running = permits.run();
    running.then(follow, follow);
    try {
      await next(worker);
    } finally {
      hasEnded = true;
      if (permits.getState() === 'RUNNING') permits.shutdown();
      await running;
    }
  }

  /** By the options that your worker has in the end: plugins after this one may have changed them. */
  private async create({ options: { connection, namespace, dataConverter } }: Worker): Promise<Worker> {
    return await createPermitWorker({ connection, namespace, dataConverter, ...this.options });
  }
}
