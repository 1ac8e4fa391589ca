import { join } from 'node:path';
import { findServer } from '../../../scripts/support/find-server';
import { freePort, spawnServer } from '../../../scripts/support/server-process';
import { stutter } from './actor-process';
import type { Fault } from './faults';

/** The Temporal server of a run. */
export interface ChaosServer {
  readonly address: string;
  /** For the report. */
  readonly described: string;
  /** What can be done to it, beside the faults that every run has. */
  readonly faults: readonly Fault[];
  /** Undoes whatever the faults did. */
  heal(): Promise<void>;
  stop(): Promise<void>;
}

/** A queue is to continue as new after so many events, far sooner than by its own rule. No public option says it: the server does. */
export const CONTINUE_AS_NEW_AFTER = 40;

const START_ATTEMPTS = 5;

/** A server that somebody else runs: it is left alone. */
export function givenServer(address: string): ChaosServer {
  return {
    address,
    described: `the server at ${address}`,
    faults: [],
    heal: async () => undefined,
    stop: async () => undefined,
  };
}

/** A dev server of our own with its state in a file, which is killed and started again. */
export async function ownServer(directory: string): Promise<ChaosServer> {
  const source = await findServer();
  if ('address' in source) return givenServer(source.address);
  const options = {
    port: await freePort(),
    dbFilename: join(directory, 'server.db'),
    dynamicConfig: [`limit.historyCount.suggestContinueAsNew=${CONTINUE_AS_NEW_AFTER}`],
  };
  let server = await spawnServer(source.path, options);
  let isDown = false;
  const start = async () => {
    for (let attempt = 1; isDown; attempt++) {
      try {
        server = await spawnServer(source.path, options);
        isDown = false;
      } catch (error) {
        if (attempt >= START_ATTEMPTS) throw error; // a busy machine may need longer than one attempt has
      }
    }
  };
  const killServer: Fault = {
    kind: 'kill-server',
    weight: 1,
    lastsMs: [100, 2_000],
    async inject({ outage }) {
      if (isDown) return undefined;
      isDown = true;
      const over = outage('*');
      await server.stop('SIGKILL');
      return {
        target: 'server',
        async heal() {
          await start();
          over();
        },
      };
    },
  };
  // Its tasks wait. Nothing is down: that explains no loss.
  const slowServer: Fault = {
    kind: 'slow-server',
    weight: 1,
    lastsMs: [3_000, 10_000],
    async inject(_world, { luck }) {
      if (isDown) return undefined;
      const goOn = stutter((signal) => server.signal(signal), 50 + luck[0] * 350, 100);
      return { target: 'server', heal: async () => goOn() };
    },
  };
  return {
    address: server.address,
    described: 'a dev server of its own',
    faults: [killServer, slowServer],
    heal: start,
    async stop() {
      await server.stop('SIGKILL');
    },
  };
}
