// A user's application, which test/package/package.slow.test.ts compiles against the packed library: once to CommonJS, once to ES
// modules. It tells by its last line what it got, and ends by SIGTERM, as a deployment would end it.
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, type LogEntry, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { SemaphoreClient } from 'temporal-semaphore/client';
import { createPermitWorker } from 'temporal-semaphore/worker';
import { train } from './workflows.js';

async function main(address: string, name: string): Promise<void> {
  let bundlesMade = 0;
  const countBundles = ({ message }: LogEntry) => {
    if (message === 'Workflow bundle created') bundlesMade++;
  };
  Runtime.install({ logger: new DefaultLogger('INFO', countBundles) });

  const taskQueue = `app-${name}`;
  const permitQueue = `permits-${name}`;
  const connection = await NativeConnection.connect({ address });
  const app = await Worker.create({ connection, taskQueue, workflowsPath: join(process.cwd(), 'workflows.js') });
  const permits = await createPermitWorker({ connection, taskQueue: permitQueue });
  const running = Promise.all([app.run(), permits.run()]);

  const client = new Client({ connection: await Connection.connect({ address }) });
  const run = (resource: string, queue?: string) =>
    client.workflow.execute(train, {
      taskQueue,
      workflowId: `train-${resource}`,
      args: [resource, queue],
      workflowExecutionTimeout: '30s',
    });
  const outside = new SemaphoreClient(client, `outside-${name}`, { capacity: 1, taskQueue: permitQueue });
  const permitsTaken = [
    await run(`own-${name}`, taskQueue),
    await run(`apart-${name}`, permitQueue),
    await outside.withPermit(async (permit) => permit.workflowId),
  ];

  process.kill(process.pid, 'SIGTERM');
  await running;
  await client.connection.close();
  await connection.close();
  console.log(JSON.stringify({ permitsTaken, bundlesMade }));
}

const [address = '', name = ''] = process.argv.slice(2);
main(address, name).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
