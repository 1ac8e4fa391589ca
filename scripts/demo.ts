import { randomUUID } from 'node:crypto';
import { Client } from '@temporalio/client';
import type { WorkflowBundle } from '@temporalio/worker';
import { Operator } from '@/operator';
import { withConnection } from './support/connection';
import { RESOURCE } from './support/consumer-run';
import { bundleExample, installRuntime, TASK_QUEUE, withExampleWorker } from './support/example-worker';
import { findServer } from './support/find-server';
import { LateWriter } from './support/late-writer';
import { runMain } from './support/main';
import { runConsumers } from './support/run-consumers';
import { type DemoOptions, parseDemoOptions } from './support/run-options';
import { freePort, type ServerProcess, spawnServer } from './support/server-process';
import { withDashboard } from './support/with-dashboard';

/** Windows has no signal that stops a process. */
const CAN_STOP = process.platform !== 'win32';

const NEXT_STEPS = `
What to try next:
  npx -y pnpm@10 demo --dashboard                  with a live page
  npx -y pnpm@10 demo --consumers 40 --capacity 5  more of them
  README.md, "Quick start"                         four files of your own
  docs/fencing.md                                  why a late write is refused`;

/** `pnpm demo`: server, worker and consumers in one command. */
async function main(interrupt: AbortSignal): Promise<number> {
  const options = parseDemoOptions(process.argv.slice(2));
  installRuntime('ERROR');
  console.log('Starting …');
  // Both take seconds, and neither needs the other.
  const [server, bundle] = await Promise.allSettled([demoServer(options), bundleExample()]);
  try {
    if (server.status === 'rejected') throw server.reason;
    if (bundle.status === 'rejected') throw bundle.reason;
    interrupt.throwIfAborted();
    return await runOn(server.value, bundle.value, options, interrupt);
  } finally {
    if (server.status === 'fulfilled') await server.value.process?.stop();
  }
}

interface DemoServer {
  address: string;
  /** When it is ours. */
  process?: ServerProcess;
}

async function demoServer({ address }: DemoOptions): Promise<DemoServer> {
  const source = address ? { address } : await findServer();
  if ('address' in source) return source;
  const process = await spawnServer(source.path, { uiPort: await freePort() });
  return { address: process.address, process };
}

async function runOn(
  { address, process: own }: DemoServer,
  workflowBundle: WorkflowBundle,
  options: DemoOptions,
  interrupt: AbortSignal,
): Promise<number> {
  // On a server that others use, their workers are not to do this demo's work.
  const taskQueue = `${TASK_QUEUE}-${randomUUID()}`;
  const ended = new AbortController();
  void own?.ended.then((words) => ended.abort(new Error(`The Temporal server has ended: ${words}`)));

  return await withConnection({ connectionOptions: { address } }, async (connection) => {
    console.log(`Temporal server: ${address}${own ? ', for as long as the demo runs' : ''}`);
    if (own?.ui) console.log(`Web UI: ${own.ui}`);
    const client = new Client({ connection });
    const anyEnd = AbortSignal.any([interrupt, ended.signal]);
    const consume = async () => {
      const lateWriter = CAN_STOP ? new LateWriter(client, { address, taskQueue }) : undefined;
      try {
        const code = await runConsumers(client, { options, taskQueue, interrupt: anyEnd });
        await lateWriter?.show(anyEnd);
        if (lateWriter) console.log(NEXT_STEPS);
        return code;
      } finally {
        lateWriter?.close();
      }
    };
    const show = async () => {
      const operator = new Operator(client, RESOURCE, { capacity: options.capacity, taskQueue });
      return await withDashboard({ operator, address, ui: own?.ui, interrupt: anyEnd }, consume);
    };
    return await withExampleWorker({ connection, taskQueue, workflowBundle }, options.dashboard ? show : consume);
  });
}

runMain(main);
