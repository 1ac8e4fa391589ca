import type { Client } from '@temporalio/client';
import type { Inspection, SemaphoreClient } from '../client';
import { pause } from '../client/operators';
import { heldOf } from './draw-pool';
import { say } from './render';
import { text } from './text';

/** Whoever waits less than that need not hear why. */
const SILENT_MS = 2_000;

/** To look costs a call for each slot. */
const MOST_SLOTS = 100;

/** Says once what this process waits for, if it still does after a while. It never fails: the wait is what counts. */
export async function tellWhatItWaitsFor(pools: SemaphoreClient[], client: Client, over: AbortSignal): Promise<void> {
  await pause(SILENT_MS, over);
  if (over.aborted) return;
  const { identity } = client.options;
  const seen = await Promise.all(pools.map(look));
  // Of several, the one in whose line it stands.
  const found = seen.find((pool) => pool?.waiters.some((waiter) => waiter.identity === identity)) ?? seen[0];
  const resource = found?.resource ?? pools.map((pool) => pool.resource).join('" and "');
  if (!over.aborted) say(text`waits for a permit of "${resource}"${found ? details(found, identity) : ''}`);
}

function details(seen: Inspection, identity: string): unknown {
  const at = seen.waiters.findIndex((waiter) => waiter.identity === identity);
  const ahead = at < 0 ? seen.waiters.length : at;
  return text`: ${heldOf(seen)}, ${ahead} ahead${seen.override?.paused ? ', and the pool is paused' : ''}`;
}

/** `undefined`: too large, or the server is slow or does not let us look. Then only that it waits. */
async function look(pool: SemaphoreClient): Promise<Inspection | undefined> {
  if (pool.slotCount > MOST_SLOTS) return undefined;
  return await pool.inspect({ recent: 0 }).catch(() => undefined);
}
