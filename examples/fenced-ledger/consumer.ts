/** One consumer's process: a worker with its own task queue, which reports each step to its parent. */
import { NativeConnection, Worker } from '@temporalio/worker';
import { Pool, type PoolConfig } from 'pg';
import { fencingInterceptors } from 'temporal-semaphore/fencing-worker';
import { ledgerActivities } from './activities';
import { quiet } from './quiet';

export interface ConsumerOptions {
  name: string;
  address: string;
  /** The bundled Workflows. */
  codePath: string;
  postgres: PoolConfig;
}

async function main({ name, address, codePath, postgres }: ConsumerOptions): Promise<void> {
  quiet();
  const pool = new Pool(postgres);
  const connection = await NativeConnection.connect({ address });
  const worker = await Worker.create({
    connection,
    taskQueue: name,
    workflowBundle: { codePath },
    activities: ledgerActivities(pool, (report) => process.send?.(report)),
    interceptors: fencingInterceptors,
  });
  process.send?.('ready');
  await worker.run();
  await Promise.all([connection.close(), pool.end()]);
  process.disconnect?.();
}

main(JSON.parse(process.argv[2] ?? '')).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
  process.disconnect?.();
});
