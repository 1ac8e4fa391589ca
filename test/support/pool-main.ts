// A process with a permit pool, for tests that kill and stop it. Its callers make calls one after the other; it tells when
// each began and ended by a line of JSON, on a clock that all processes of the machine share.
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import {
  PermitLostError,
  PermitPool,
  type PermitPoolOptions,
  SemaphoreClient,
  type SemaphoreClientOptions,
} from '../../src/client';

export interface PoolInput {
  address: string;
  resource: string;
  semaphore: SemaphoreClientOptions;
  pool?: PermitPoolOptions;
  callers: number;
  callMs: number;
  /** How long each caller waits between two calls. @default 0 */
  pauseMs?: number;
  /** How many calls each makes; or for how long. */
  calls?: number;
  forMs?: number;
}

export type PoolLine =
  | { at: 'open' | 'done' | 'closed' }
  | { at: 'begin'; call: number; runId: string; ms: number; waitedMs: number }
  | { at: 'end'; call: number; ms: number; lost: boolean };

function tell(line: PoolLine): void {
  console.log(JSON.stringify(line));
}

function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

async function main(input: PoolInput): Promise<void> {
  const { address, resource, semaphore, callers, callMs, pauseMs = 0, calls = Number.POSITIVE_INFINITY } = input;
  const connection = await Connection.connect({ address });
  const pool = new PermitPool(new SemaphoreClient(new Client({ connection }), resource, semaphore), input.pool);
  tell({ at: 'open' });
  await new Promise((resolve) => process.stdin.once('data', resolve));
  const untilMs = nowMs() + (input.forMs ?? Number.POSITIVE_INFINITY);
  let made = 0;
  const caller = async () => {
    for (let n = 0; n < calls && nowMs() < untilMs; n++) {
      const sinceMs = nowMs();
      const call = made++;
      let lost = false;
      let hasBegun = false;
      try {
        await pool.withPermit(async ({ runId, signal }) => {
          signal.throwIfAborted(); // this process may have been stopped since the pool looked
          hasBegun = true;
          tell({ at: 'begin', call, runId, ms: nowMs(), waitedMs: nowMs() - sinceMs });
          await delay(callMs, undefined, { signal });
        });
      } catch (error) {
        if (!(error instanceof PermitLostError || (error as Error).name === 'AbortError')) throw error;
        lost = true;
      }
      if (hasBegun) tell({ at: 'end', call, ms: nowMs(), lost });
      else n--;
      if (pauseMs > 0) await delay(pauseMs);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  tell({ at: 'done' });
  await pool.close();
  tell({ at: 'closed' });
  await connection.close();
  process.stdin.destroy();
}

main(JSON.parse(process.argv[2] ?? '')).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
