import { NativeConnection, Worker } from '@temporalio/worker';
import { SemaphorePlugin } from 'temporal-semaphore/worker';
import * as activities from './activities';
import { limits } from './limits';

async function main(): Promise<void> {
  const connection = await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
  const worker = await Worker.create({
    connection,
    taskQueue: 'jobs',
    workflowsPath: require.resolve('./workflows'),
    activities,
    plugins: [new SemaphorePlugin({ ...limits, limitsPath: require.resolve('./limits') })],
  });
  await worker.run(); // until Ctrl-C
  await connection.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
