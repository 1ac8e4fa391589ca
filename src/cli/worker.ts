import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { isGrpcServiceError } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import type { Command } from 'commander';
import { limitsFileAt } from '../limits/limits-file-at';
import { refuse } from '../shared/check';
import { DEFAULT_TASK_QUEUE } from '../shared/protocol';
import { checkAddress, connectionError, NoNamespaceError } from './check-address';
import { type ConnectionFlags, connectConfig, loadDataConverter, withConnectionFlags } from './connection';
import { signalCode } from './exit-codes';
import { say } from './terminal';

interface WorkerFlags extends ConnectionFlags {
  taskQueue: string;
  metrics?: string;
  limits?: string;
}

/** How long the tasks under way may take after a signal. Kubernetes kills after 30 s, and a killed worker can't say why it ended. */
const DRAIN_MS = 25_000;

const HELP = `
Examples:
  temporal-semaphore worker
  temporal-semaphore worker -n production --metrics 0.0.0.0:9464
  temporal-semaphore worker --limits limits.yaml

The command needs the package @temporalio/worker, installed beside this one.

With --limits, at startup and then every minute, the worker compares the limits
in force with the file, and changes those that differ. It reads the file again
when the file changes.
`;

export function addWorker(program: Command, done: (exitCode: number) => void): void {
  const worker = program
    .command('worker')
    .summary('run the permit Workflows')
    .description(
      'Runs the permit Workflows on a dedicated task queue until SIGTERM or SIGINT, and then exits within 25 s. Permits outlive the worker: the next worker continues them.',
    )
    .option('--task-queue <name>', 'the task queue of the permits', DEFAULT_TASK_QUEUE)
    .addHelpText('after', HELP)
    .option('--metrics <ip:port>', 'serve Prometheus metrics here, for example on 0.0.0.0:9464 (default: no metrics)')
    .option('--limits <file>', 'keep this limits file in force (see temporal-semaphore plan --help)')
    .action(async (flags: WorkerFlags) => {
      done(await work(flags));
    });
  withConnectionFlags(worker);
}

/** @returns the exit code */
async function work(flags: WorkerFlags): Promise<number> {
  const { connectionOptions, namespace, address } = connectConfig(flags);
  const { taskQueue, metrics, limits } = flags;
  if (metrics !== undefined && !isSocketAddress(metrics)) refuse('--metrics', 'an IP address and a port', metrics);
  const dataConverter = await loadDataConverter(flags.dataConverter);
  if (limits !== undefined) limitsFileAt(limits);
  const { NativeConnection, Runtime } = await loadSdkWorker();
  await checkAddress(address);
  const { createPermitWorker, HISTOGRAM_BUCKETS } = await import('../worker.js');
  if (metrics !== undefined) {
    const prometheus = { bindAddress: metrics, histogramBucketOverrides: HISTOGRAM_BUCKETS };
    Runtime.install({ telemetryOptions: { metrics: { prometheus } } });
  }
  const run = async () => {
    const connection = await NativeConnection.connect(connectionOptions).catch((error: Error) => {
      throw connectionError(address, error);
    });
    try {
      await checkNamespace(connection, namespace, address);
      const worker = await createPermitWorker({ connection, namespace, taskQueue, dataConverter, limits });
      say(`permits run on task queue "${taskQueue}" of namespace "${namespace}" at ${address}.`);
      await worker.run();
      return 0;
    } finally {
      await connection.close();
    }
  };
  return await Promise.race([run(), lateEnd(Runtime.instance().options.shutdownSignals)]);
}

/** Loaded only here: it is native code, and an optional peer, which a machine that runs no worker does without. */
async function loadSdkWorker(): Promise<typeof import('@temporalio/worker')> {
  return await import('@temporalio/worker').catch((error: NodeJS.ErrnoException) => {
    const isMissing = /MODULE_NOT_FOUND$/.test(error.code ?? '') && /'@temporalio\/worker'/.test(error.message);
    throw isMissing ? new Error(NOT_INSTALLED) : error;
  });
}

const NOT_INSTALLED =
  'worker needs the package @temporalio/worker, which is not installed. Install it: npm install @temporalio/worker (with -g if temporal-semaphore is installed globally). With npx, without an installation: npx -p temporal-semaphore -p @temporalio/worker temporal-semaphore worker';

/** gRPC's code for what is not there. */
const NOT_FOUND = 5;

/** The SDK's worker would print its core's own words. A server that does not let us ask may have the namespace. */
async function checkNamespace(connection: NativeConnection, namespace: string, address: string): Promise<void> {
  await connection.workflowService.describeNamespace({ namespace }).catch((error: unknown) => {
    if (isGrpcServiceError(error) && error.code === NOT_FOUND) throw new NoNamespaceError(namespace, address);
  });
}

/**
 * Bounds the shutdown: a worker whose tasks do not end, or whose server is gone, would drain indefinitely. @returns the exit code, once a
 * signal has not ended the worker in time
 */
async function lateEnd(signals: NodeJS.Signals[]): Promise<number> {
  const signal = await new Promise<NodeJS.Signals>((resolve) => {
    for (const name of signals) process.once(name, resolve);
  });
  await delay(DRAIN_MS);
  say(
    `the worker has not ended within ${DRAIN_MS / 1_000} s after ${signal}: its tasks or the server do not answer. It exits without them.`,
  );
  return signalCode(signal);
}

/** The SDK takes an IP address and no name; IPv6 in brackets. */
function isSocketAddress(text: string): boolean {
  const [, ip4, ip6, port] = /^(?:([\d.]+)|\[(.+)\]):(\d+)$/.exec(text) ?? [];
  return (isIP(ip4 ?? '') === 4 || isIP(ip6 ?? '') === 6) && Number(port) <= 65_535;
}
