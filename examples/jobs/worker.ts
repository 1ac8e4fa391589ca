import { NativeConnection, Worker } from '@temporalio/worker';
import { SemaphorePlugin } from 'temporal-semaphore/worker';
import { Semaphore } from 'temporal-semaphore/workflow';
import * as activities from './activities';

const encoders = new Semaphore('encoders', { capacity: 2 });

async function main(): Promise<void> {
  const connection = await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
  const plugins = [new SemaphorePlugin({ activities: { convert: { semaphore: encoders } } })];
  const worker = await Worker.create({ connection, taskQueue: 'jobs', activities, plugins });
  await worker.run(); // until Ctrl-C
  await connection.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
