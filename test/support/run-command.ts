import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'node:test';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import { SemaphoreClient } from '../../src/client';
import { permitId } from '../../src/shared/permit-id';
import { CliHost, type Ended } from './cli-host';
import { CliProcess } from './cli-process';
import type { Temporal } from './temporal';

export interface RunOptions {
  resource: string;
  flags?: string[];
  address?: string;
  taskQueue?: string;
}

/** The command `run` on a resource of capacity 1, for the tests of one file. What it starts ends after each test. */
export function useRunCommand(temporal: Temporal) {
  const clean: (() => unknown)[] = [];
  afterEach(async () => {
    for (const step of clean.splice(0).reverse()) await step();
  });
  const host = new CliHost(false, { TEMPORAL_SEMAPHORE_TOKEN: 'the-key-of-the-page' });

  function words({ resource, flags = [], address, taskQueue }: RunOptions, command: string[]): string[] {
    const to = ['--address', address ?? temporal.env.address, '--task-queue', taskQueue ?? temporal.taskQueue];
    return ['run', resource, '--capacity', '1', ...to, ...flags, '--', ...command];
  }

  return {
    host,
    clean,

    /** Runs a command under a permit to its end. */
    async run(options: RunOptions, ...command: string[]): Promise<Ended> {
      return await host.run(words(options, command));
    },

    /** The same in a process of its own. */
    start(options: RunOptions, ...command: string[]): CliProcess {
      const started = new CliProcess(words(options, command));
      clean.push(() => started.signal('SIGKILL'));
      return started;
    },

    /** Between the command and the server. */
    async proxied(): Promise<TcpProxy> {
      const proxy = await TcpProxy.to(temporal.env.address);
      clean.push(() => proxy.close());
      return proxy;
    },

    /** A command that says `ready`, and goes on when it may. */
    gated(goesOn: string) {
      const gate = join(tmpdir(), `cli-gate-${randomUUID()}`);
      clean.push(() => rmSync(gate, { force: true }));
      const wait = `trap "" TERM; echo ready; until [ -e ${gate} ]; do sleep 0.1; done; ${goesOn}`;
      return { command: ['sh', '-c', wait], open: () => writeFileSync(gate, '') };
    },

    semaphore(resource: string): SemaphoreClient {
      return new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
    },

    permitOf(resource: string) {
      return temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
    },
  };
}
