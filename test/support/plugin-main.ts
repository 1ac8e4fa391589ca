// An application in a process of its own, whose plugin runs the permits: an activity and a call of a pool are under way when SIGTERM comes.
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { PermitPool, SemaphoreClient } from '../../src/client';
import { SemaphorePlugin } from '../../src/worker';
import { Semaphore } from '../../src/workflow';

export interface PluginInput {
  address: string;
  taskQueue: string;
  permitQueue: string;
  /** Of the activity, and of the pool. */
  resources: [string, string];
}

/** How long each still works after the signal. */
const WORKS_MS = [500, 3_000] as const;

async function main({ address, taskQueue, permitQueue, resources: [ofActivity, ofPool] }: PluginInput): Promise<void> {
  const signalled = new Promise<void>((resolve) => process.once('SIGTERM', () => resolve()));
  const connection = await NativeConnection.connect({ address });
  const client = new Client({ connection: await Connection.connect({ address }) });
  const options = { capacity: 1, taskQueue: permitQueue, lease: '10 minutes' } as const;
  const pool = new PermitPool(new SemaphoreClient(client, ofPool, options));
  const callVendor = async () => {
    await pool.withPermit(async () => {
      console.log('both work');
      await signalled;
      await delay(WORKS_MS[1]);
    });
  };
  const activities = {
    callVendor: async () => {
      void callVendor();
      await signalled;
      await delay(WORKS_MS[0]);
    },
  };
  const limits = { callVendor: { semaphore: new Semaphore(ofActivity, options) } };
  const plugins = [new SemaphorePlugin({ taskQueue: permitQueue, activities: limits })];
  const worker = await Worker.create({ connection, taskQueue, activities, plugins });
  const ended = worker.run();
  console.log('ready');
  await signalled;
  await Promise.all([ended, pool.close()]); // a framework runs the shut-down hooks of its modules side by side
  await client.connection.close();
  await connection.close();
  console.log('closed');
}

main(JSON.parse(process.argv[2] ?? '')).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
