import { isIP } from 'node:net';
import type { Command } from 'commander';
import { refuse } from '../client/operators';
import { checkAddress, connectionError } from './check-address';
import { type ConnectionFlags, connectConfig, loadDataConverter, withConnectionFlags } from './connection';
import { say } from './render';

interface WorkerFlags extends ConnectionFlags {
  taskQueue: string;
  metrics?: string;
}

const HELP = `
Examples:
  temporal-semaphore worker
  temporal-semaphore worker -n production --task-queue permits --metrics 0.0.0.0:9464
`;

export function addWorker(program: Command, done: (exitCode: number) => void): void {
  const worker = program
    .command('worker')
    .summary('run the permit Workflows')
    .description(
      'Runs the permit Workflows on a task queue of their own, until SIGTERM or SIGINT. Stopping the worker ends no permit.',
    )
    .option('--task-queue <name>', 'the task queue of the permits', 'permits')
    .addHelpText('after', HELP)
    .option('--metrics <ip:port>', 'where to serve metrics for Prometheus, such as 0.0.0.0:9464 (default: nowhere)')
    .action(async (flags: WorkerFlags) => {
      await work(flags);
      done(0);
    });
  withConnectionFlags(worker);
}

async function work(flags: WorkerFlags): Promise<void> {
  const { connectionOptions, namespace, address } = connectConfig(flags);
  const { taskQueue, metrics } = flags;
  if (metrics !== undefined && !isSocketAddress(metrics)) refuse('--metrics', 'an IP address and a port', metrics);
  const dataConverter = await loadDataConverter(flags.dataConverter);
  await checkAddress(address);
  // Loaded only here: it is native code, and not installed where nobody runs a worker.
  const { NativeConnection, Runtime } = await import('@temporalio/worker');
  const { createPermitWorker, HISTOGRAM_BUCKETS } = await import('../worker.js');
  if (metrics !== undefined) {
    const prometheus = { bindAddress: metrics, histogramBucketOverrides: HISTOGRAM_BUCKETS };
    Runtime.install({ telemetryOptions: { metrics: { prometheus } } });
  }
  const connection = await NativeConnection.connect(connectionOptions).catch((error: Error) => {
    throw connectionError(address, error);
  });
  try {
    const worker = await createPermitWorker({ connection, namespace, taskQueue, dataConverter });
    say(`permits run on task queue "${taskQueue}" of namespace "${namespace}".`);
    await worker.run();
  } finally {
    await connection.close();
  }
}

/** The SDK takes an IP address and no name; IPv6 in brackets. */
function isSocketAddress(text: string): boolean {
  const [, ip4, ip6, port] = /^(?:([\d.]+)|\[(.+)\]):(\d+)$/.exec(text) ?? [];
  return (isIP(ip4 ?? '') === 4 || isIP(ip6 ?? '') === 6) && Number(port) <= 65_535;
}
