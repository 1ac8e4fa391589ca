// The holder that hangs, of `late-writer.ts`: a process of its own, so that it can be stopped. It writes again and again, and does not
// look whether it still holds its permit.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { SemaphoreClient, type SemaphoreClientOptions } from '@/client';
import { FencingToken } from '@/fencing';

export interface WriterInput {
  address: string;
  name: string;
  resource: string;
  semaphore: SemaphoreClientOptions;
}

/** What it tells: that it is ready; then each write, with its fencing token. */
export type WriterMessage = 'ready' | { token: string };

export const WRITE_EVERY_MS = 600;

async function main({ address, name, resource, semaphore }: WriterInput): Promise<void> {
  const tell = (message: WriterMessage) => process.send?.(message);
  process.once('disconnect', () => process.exit());
  const client = new Client({ connection: await Connection.connect({ address }), identity: name });
  tell('ready');
  await once(process, 'message');
  const permit = await new SemaphoreClient(client, resource, semaphore).acquire();
  const token = String(FencingToken.from(permit));
  for (;;) {
    tell({ token });
    await delay(WRITE_EVERY_MS);
  }
}

if (require.main === module) void main(JSON.parse(process.argv[2] ?? ''));
