// A client in a process of its own, for tests that stop or kill it: takes a permit, works under it until it is lost, then
// tries what a late holder might try. Tells each step by a line of JSON.
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import {
  type ClientAcquireOptions,
  type Permit,
  PermitLostError,
  SemaphoreClient,
  type SemaphoreClientOptions,
} from '../../src/client';

export interface ClientInput {
  address: string;
  resource: string;
  semaphore: SemaphoreClientOptions;
  acquire?: Omit<ClientAcquireOptions, 'key' | 'permits'>;
  /** Acquirers in this one process. @default 1 */
  clients?: number;
  /** How long each holds. @default until its permit is lost */
  holdMs?: number;
  /** Leaves the lost permit alone, and closes the connection. */
  drops?: boolean;
}

/** One step: `work` comes every 20 ms while the permit looks held. */
export interface Step {
  step: 'waiting' | 'acquired' | 'work' | 'releasing' | 'lost' | 'after';
  atMs: number;
  runId?: string;
  how?: string;
  renewal?: string;
}

function deliver(step: Omit<Step, 'atMs'>): void {
  console.log(JSON.stringify({ ...step, atMs: Date.now() }));
}

async function main({ address, resource, semaphore, acquire, clients = 1, holdMs, drops }: ClientInput): Promise<void> {
  // Without the SDK's own retries where it drops the permit: one that sleeps when its connection is closed throws out of a timer.
  const connection = await Connection.connect({ address, ...(drops && { interceptors: [] }) });
  const pool = new SemaphoreClient(new Client({ connection }), resource, semaphore);
  deliver({ step: 'waiting' });
  await Promise.all(
    Array.from({ length: clients }, async () => {
      const permit = await pool.acquire(acquire);
      const { runId } = permit;
      deliver({ step: 'acquired', runId });
      if (holdMs === undefined) return await workUntilLost(permit, drops);
      await delay(holdMs);
      deliver({ step: 'releasing', runId });
      await permit.release();
    }),
  );
  await connection.close();
}

async function workUntilLost(permit: Permit, drops = false): Promise<void> {
  const { runId } = permit;
  while (!permit.signal.aborted) {
    deliver({ step: 'work' });
    await delay(20);
  }
  const { reason } = permit.signal;
  deliver({ step: 'lost', runId, how: reason instanceof PermitLostError ? reason.how : String(reason) });
  if (drops) return;
  const renewal = await permit.renew().then(
    () => 'renewed',
    (error: Error) => error.name,
  );
  await permit.release();
  deliver({ step: 'after', renewal });
}

main(JSON.parse(process.argv[2] ?? '')).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
