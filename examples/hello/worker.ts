import { NativeConnection, Worker } from '@temporalio/worker';
import { SemaphorePlugin } from 'temporal-semaphore/worker';
import * as activities from './activities';

async function main(): Promise<void> {
  const connection = await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
  const worker = await Worker.create({
    connection,
    taskQueue: 'training',
    workflowsPath: require.resolve('./workflows'),
    activities,
    maxHeartbeatThrottleInterval: '3s', // a heartbeat is sent, and answered, every 3 s
    plugins: [new SemaphorePlugin()], // runs the permits too
  });
  await worker.run(); // until Ctrl-C
  await connection.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
