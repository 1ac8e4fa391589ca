import { setTimeout as delay } from 'node:timers/promises';
import { Runtime, type Worker } from '@temporalio/worker';
import { ownWorkerBegins } from '../client/server/own-workers';

/** How soon your worker ends when the permit worker has ended before yours began. */
const FOLLOW_MS = 100;

/** The permit worker: where it is to run, and how it is made. */
interface PermitWorkerBeside {
  readonly taskQueue: string;
  /** @default that of the other worker */
  readonly namespace?: string | undefined;
  create(): Promise<Worker>;
}

/**
 * Runs a permit worker alongside another worker, for as long as the other worker runs. When the permit worker ends, the other worker shuts
 * down; if the permit worker can't be made or fails, this rejects with the reason.
 * @param next runs the other worker
 */
export async function runBeside(
  worker: Worker,
  next: () => Promise<void>,
  { taskQueue, namespace = worker.options.namespace, create }: PermitWorkerBeside,
): Promise<void> {
  // Registered from now on: a release that comes before the permit worker polls has to wait for it.
  const gone = ownWorkerBegins(namespace, taskQueue);
  let hasEnded = false;
  const follow = async () => {
    while (!hasEnded && worker.getState() === 'INITIALIZED') await delay(FOLLOW_MS); // other plugins may come before its start
    if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  const permits = await create().catch(async (error) => {
    gone();
    // A worker that never ran would keep the connection from being closed.
    const ended = next().finally(() => {
      hasEnded = true;
    });
    await Promise.all([ended, follow()]);
    throw error;
  });
  const running = runThroughSignals(permits).finally(gone);
  running.then(follow, follow);
  try {
    await next();
  } finally {
    hasEnded = true;
    gone();
    if (permits.getState() === 'RUNNING') permits.shutdown();
    await running;
  }
}

/**
 * At a signal, the SDK shuts down every worker that runs. This one goes on until the other worker has ended, for that may have permits to
 * give back until then. `test/unit/sdk-internals.test.ts` fails when a release of the SDK no longer lets us.
 */
function runThroughSignals(worker: Worker): Promise<void> {
  const runtime = Runtime.instance();
  runtime.registerShutdownSignalCallback = () => undefined;
  try {
    return worker.run();
  } finally {
    Reflect.deleteProperty(runtime, 'registerShutdownSignalCallback'); // its class has it
  }
}
