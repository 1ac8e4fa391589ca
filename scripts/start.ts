import { Client } from '@temporalio/client';
import { describeServer, environmentSettings, withConnection } from './support/connection';
import { installRuntime, TASK_QUEUE } from './support/example-worker';
import { runMain } from './support/main';
import { runConsumers } from './support/run-consumers';
import { parseStartOptions } from './support/run-options';

/** `pnpm start`: the consumers alone. `pnpm worker` runs them, on the server that the environment names. */
async function main(interrupt: AbortSignal): Promise<number> {
  const options = parseStartOptions(process.argv.slice(2));
  installRuntime('ERROR');
  const settings = environmentSettings();
  return await withConnection(settings, async (connection) => {
    console.log(`Temporal server: ${describeServer(settings)}`);
    const client = new Client({ connection, namespace: settings.namespace });
    if (!(await hasWorker(client))) {
      console.log(`No worker on task queue ${TASK_QUEUE} yet. Start one with: npx -y pnpm@10 worker`);
    }
    return await runConsumers(client, { options, taskQueue: TASK_QUEUE, interrupt });
  });
}

/** Whether a worker has polled the task queue of late. The consumers wait for one, so this is only a hint. */
async function hasWorker({ workflowService, options }: Client): Promise<boolean> {
  const { pollers } = await workflowService.describeTaskQueue({
    namespace: options.namespace,
    taskQueue: { name: TASK_QUEUE },
    taskQueueType: 1,
  });
  return pollers.length > 0;
}

runMain(main);
