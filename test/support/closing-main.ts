// A process whose server goes away during a call. It closes its connection after the call, as the README shows, and ends by itself.
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import { PermitPool, SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import { Operator } from '../../src/operator';

export interface ClosingInput {
  address: string;
  resource: string;
  semaphore: SemaphoreClientOptions;
  during: 'withPermit' | 'release' | 'timeout' | 'abort' | 'pool' | 'operator';
}

async function main({ address, resource, semaphore, during }: ClosingInput): Promise<void> {
  const proxy = await TcpProxy.to(address);
  const connection = await Connection.connect({ address: proxy.address });
  const client = new Client({ connection });
  const own = new SemaphoreClient(client, resource, semaphore);
  process.on('warning', ({ name, message }) => console.log('warning', name, message));
  const calls: Record<ClosingInput['during'], () => Promise<unknown>> = {
    withPermit: () =>
      own.withPermit(async () => {
        proxy.cut('reset');
        return 'the work is done';
      }),
    async release() {
      const permit = await own.acquire();
      proxy.cut('reset');
      await permit.release();
    },
    async timeout() {
      setTimeout(() => proxy.cut('reset'), 500);
      await own.acquire({ timeout: 1_500 });
    },
    async abort() {
      const stop = new AbortController();
      setTimeout(() => proxy.cut('reset'), 500);
      setTimeout(() => stop.abort(new Error('aborted')), 1_500);
      await own.acquire({ signal: stop.signal });
    },
    async pool() {
      const pool = new PermitPool(own);
      await pool.withPermit(() => undefined);
      proxy.cut('reset');
      await pool.close();
    },
    async operator() {
      proxy.cut('reset');
      await new Operator(client, resource, { capacity: 1 }).revoke('0', { timeout: 500 });
    },
  };
  const said = await calls[during]().then(
    (value) => String(value),
    (error: Error) => error.name,
  );
  await connection.close();
  console.log(`closed after: ${said}`);
  await proxy.close();
  await delay(0);
}

void main(JSON.parse(process.argv[2] ?? ''));
