// A permit worker in a process of its own, whose CPU and memory `pnpm bench:sizing` reads.
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { createPermitWorker } from '@/worker';

/** All permits that `pnpm bench:sizing` holds at once, and more. */
const CACHED = 10_000;

async function main(address: string, taskQueue: string): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const connection = await NativeConnection.connect({ address });
  const bundlerOptions = { logger: new DefaultLogger('ERROR') } as object;
  const worker = await createPermitWorker({
    connection,
    taskQueue,
    bundlerOptions,
    maxCachedWorkflows: CACHED,
  });
  process.on('disconnect', () => process.exit());
  process.send?.('ready');
  await worker.run();
}

const [address = '', taskQueue = ''] = process.argv.slice(2);
main(address, taskQueue).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
