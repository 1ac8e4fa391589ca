import { describeServer, environmentSettings, withConnection } from './support/connection';
import { bundleExample, installRuntime, TASK_QUEUE, withExampleWorker } from './support/example-worker';
import { runMain, untilAborted } from './support/main';
import { parseWorkerOptions } from './support/run-options';

/** `pnpm worker`: runs the example consumers and their permits until a signal ends it, which is no failure. */
async function main(interrupt: AbortSignal): Promise<number> {
  parseWorkerOptions(process.argv.slice(2));
  installRuntime('WARN');
  const settings = environmentSettings();
  await withConnection(settings, async (connection) => {
    const { namespace } = settings;
    const workflowBundle = await bundleExample();
    await withExampleWorker({ connection, namespace, taskQueue: TASK_QUEUE, workflowBundle }, async () => {
      console.log(`Worker on task queue ${TASK_QUEUE} of ${describeServer(settings)}. Ctrl-C ends it.`);
      await untilAborted(interrupt);
    });
  });
  console.log('The worker has ended.');
  return 0;
}

runMain(main);
