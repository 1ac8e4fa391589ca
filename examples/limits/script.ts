import { Client, Connection } from '@temporalio/client';
import { SemaphoreClient } from 'temporal-semaphore/client';
import { callVendor } from './activities';
import { vendor } from './limits';

// A script that waits for the vendor in the same queue as the Workflows' activities.
async function main(): Promise<void> {
  const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
  const semaphore = new SemaphoreClient(new Client({ connection }), vendor);
  await semaphore.withPermit(() => callVendor('the script'), { timeout: '1 minute' });
  await connection.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
