// A worker of the tests' Workflows in a process of its own, which a test can kill.
import { NativeConnection, Worker } from '@temporalio/worker';
import { bundleWorkflows } from '../../scripts/support/workflow-bundles';
import { PERMIT_WORKER_DEFAULTS } from '../../src/worker/permit-worker';

async function main(address: string, taskQueue: string): Promise<void> {
  const worker = await Worker.create({
    connection: await NativeConnection.connect({ address }),
    taskQueue,
    workflowBundle: await bundleWorkflows(require.resolve('./workflows')),
    ...PERMIT_WORKER_DEFAULTS,
  });
  process.send?.('ready');
  await worker.run();
}

const [, , address = '', taskQueue = ''] = process.argv;
main(address, taskQueue).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
