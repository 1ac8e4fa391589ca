// An actor of a chaos run, in a process of its own, which the nemesis stops, kills and cuts off.
import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { inCurrentVersion, PERMIT_WORKER_DEFAULTS } from '@/worker/permit-worker';
import { TICK_MS } from '../observer';
import { ObserverLink } from '../observer-link';
import { activities, sinks } from './application';
import { ClientHolders } from './clients';
import type { ActorInput, Order } from './input';

async function main(input: ActorInput): Promise<void> {
  const link = await ObserverLink.to(input.observerPort);
  setInterval(() => void link.tell({ do: 'tick', actor: input.name }), TICK_MS).unref();
  if (input.role === 'clients') await runClients(input, link);
  else await runWorker(input, link);
  process.exit(0);
}

async function runClients(input: ActorInput, link: ObserverLink): Promise<void> {
  const connection = await persist(() => Connection.connect({ address: input.address, connectTimeout: '5s' }));
  const holders = new ClientHolders(input, connection, link);
  process.on('message', (order: Order) => {
    if (order === 'stop') holders.stop();
    else holders.killOnTurn();
  });
  process.send?.('ready');
  await holders.run();
}

async function runWorker(input: ActorInput, link: ObserverLink): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('WARN'), shutdownSignals: [] });
  const connection = await persist(() => NativeConnection.connect({ address: input.address }));
  const isApplication = input.role === 'application';
  const worker = await persist(() =>
    Worker.create({
      connection,
      identity: input.name,
      taskQueue: isApplication ? `${input.taskQueue}-application` : input.taskQueue,
      workflowBundle: { codePath: input.bundle },
      ...PERMIT_WORKER_DEFAULTS, // the application has them too: it is stopped for long, and the SDK would spoil its Workflows
      shutdownForceTime: '5s',
      ...(isApplication && { activities: activities(link) }),
      ...versionOf(input),
      sinks,
    }),
  );
  process.on('message', (order: Order) => {
    if (order === 'stop' && worker.getState() === 'RUNNING') worker.shutdown();
  });
  process.send?.('ready');
  await worker.run();
}

/** A user names the other behaviour, and a permit worker has its own. */
function versionOf({ taskQueue, buildId }: ActorInput) {
  if (buildId === undefined) return {};
  const version = { deploymentName: taskQueue, buildId };
  return inCurrentVersion({
    workerDeploymentOptions: { useWorkerVersioning: true, version, defaultVersioningBehavior: 'PINNED' },
  });
}

/** The server may be down. */
async function persist<T>(connect: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      console.error(String(error));
      await delay(250);
    }
  }
}

main(JSON.parse(process.argv[2] ?? '')).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
