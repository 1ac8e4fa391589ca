import type { Client } from '@temporalio/client';
import type { SemaphoreClient } from '../client';
import { type PoolOptions, pause } from '../client/operators';
import { heldOf } from './draw-pool';
import { say } from './render';
import { text } from './text';

/** Whoever waits less than that need not hear why. */
const SILENT_MS = 2_000;

/** To look costs a call for each slot. */
const MOST_SLOTS = 100;

interface Wait {
  client: Client;
  flags: PoolOptions;
  /** Aborts when the wait is over. */
  over: AbortSignal;
}

/** Says once what this process waits for, if it still does after a while. It never fails: the wait is what counts. */
export async function tellWhatItWaitsFor(pool: SemaphoreClient, { client, flags, over }: Wait): Promise<void> {
  await pause(SILENT_MS, over);
  if (over.aborted) return;
  const slots = flags.slots?.length ?? flags.capacity ?? 0;
  const details = slots <= MOST_SLOTS ? await look(pool, client.options.identity) : '';
  if (!over.aborted) say(text`waits for a permit of "${pool.resource}"${details}`);
}

async function look(pool: SemaphoreClient, identity: string): Promise<unknown> {
  try {
    const seen = await pool.inspect({ recent: 0 });
    const at = seen.waiters.findIndex((waiter) => waiter.identity === identity);
    const ahead = at < 0 ? seen.waiters.length : at;
    return text`: ${heldOf(seen)}, ${ahead} ahead${seen.override?.paused ? ', and the pool is paused' : ''}`;
  } catch {
    return ''; // the server is slow or does not let us look: then only that it waits
  }
}
