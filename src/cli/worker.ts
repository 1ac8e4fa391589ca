import type { Command } from 'commander';
import { type ConnectionFlags, connectConfig, withConnectionFlags } from './connection';

interface WorkerFlags extends ConnectionFlags {
  taskQueue: string;
}

export function addWorker(program: Command, done: (exitCode: number) => void): void {
  const worker = program
    .command('worker')
    .summary('run the permit Workflows')
    .description(
      'Runs the permit Workflows on a task queue of their own, until SIGTERM or SIGINT. No permit ends by that.',
    )
    .option('--task-queue <name>', 'where permits run', 'permits')
    .action(async (flags: WorkerFlags) => {
      await work(flags);
      done(0);
    });
  withConnectionFlags(worker);
}

async function work(flags: WorkerFlags): Promise<void> {
  const { connectionOptions, namespace } = connectConfig(flags);
  const { taskQueue } = flags;
  // Only here: it loads native code, and is not installed where nobody runs a worker.
  const { NativeConnection } = await import('@temporalio/worker');
  const { createPermitWorker } = await import('../worker/permit-worker.js');
  const connection = await NativeConnection.connect(connectionOptions);
  try {
    const worker = await createPermitWorker({ connection, namespace, taskQueue });
    console.error(`temporal-semaphore: permits run on task queue "${taskQueue}" of namespace "${namespace}".`);
    await worker.run();
  } finally {
    await connection.close();
  }
}
