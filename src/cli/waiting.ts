import type { Client } from '@temporalio/client';
import type { Inspection, SemaphoreClient } from '../client';
import { pause } from '../client/operators';
import { heldOf } from './draw-pool';
import { say } from './render';
import { text } from './text';
import { pauseNote } from './wording';

/** A shorter wait needs no explanation. */
const SILENT_MS = 2_000;

/** A look costs a call for each slot, so a larger pool gets none. */
const MOST_SLOTS = 100;

/** Says once what this process waits for, when it still waits after a while. It never fails: the wait itself counts more. */
export async function tellWhatItWaitsFor(pools: SemaphoreClient[], client: Client, over: AbortSignal): Promise<void> {
  await pause(SILENT_MS, over);
  if (over.aborted) return;
  const { identity } = client.options;
  const seen = await Promise.all(pools.map(look));
  // Of several pools, it names the one in whose line it stands.
  const found = seen.find((pool) => pool?.waiters.some((waiter) => waiter.identity === identity)) ?? seen[0];
  const resource = found?.resource ?? pools.map((pool) => pool.resource).join('" and "');
  if (!over.aborted) say(text`waiting for a permit of "${resource}"${found ? details(found, identity) : ''}`);
}

function details(seen: Inspection, identity: string): unknown {
  const at = seen.waiters.findIndex((waiter) => waiter.identity === identity);
  const ahead = at < 0 ? seen.waiters.length : at;
  const paused = seen.override?.paused ? text`, and the pool is ${pauseNote(seen.override)}` : '';
  const line = seen.queue === 'silent' ? '' : text`, ${ahead} ahead`;
  return text`: ${heldOf(seen)}${line}${paused}`;
}

/** `undefined` when the pool is too large, or the server is slow or refuses. */
async function look(pool: SemaphoreClient): Promise<Inspection | undefined> {
  if (pool.slotCount > MOST_SLOTS) return undefined;
  return await pool.inspect({ recent: 0 }).catch(() => undefined);
}
