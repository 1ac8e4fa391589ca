import type { Client } from '@temporalio/client';
import { accumulatorResource, isKeyPool, wholeOf } from '../../shared/key-pool';
import { isResource } from '../../shared/permit-id';
import { monotonicMs, pause } from '../clock';
import { messageOf } from '../errors';
import { mapConcurrently } from '../map-concurrently';
import { Server } from '../server';
import { ANSWERS_WITHIN_MS } from './inspector';
import { type KeysInUse, PoolByName, type PoolOptions, type SeenPool } from './pool-by-name';
import { listAllHolders, listQueues } from './visibility';
import { WorkerQueries } from './worker-queries';

/** The use of one resource: its held slots and its waiters. */
export interface ResourceInUse {
  /** The slots held. */
  slots: string[];
  /** Of the pools of its keys, which are counted only: there may be thousands. */
  keys?: KeysInUse;
}

/** All resources of the namespace of which somebody holds or waits for a permit, with their keys folded in; seconds late. */
export async function resourcesInUse(client: Client): Promise<Map<string, ResourceInUse>> {
  const resources = new Map<string, ResourceInUse>();
  const keys = new Map<string, { held: Set<string>; queued: Set<string>; permits: number }>();
  const add = (resource: string, slots: string[]) => {
    const whole = wholeOf(resource);
    // Somebody else's Workflow may have our type by chance, and a name that no pool can have.
    if (!isResource(resource) || !isResource(whole)) return;
    const known = resources.get(whole) ?? { slots: [] };
    resources.set(whole, known);
    if (resource === accumulatorResource(whole)) return; // somebody takes several: the whole has a row
    if (!isKeyPool(resource)) {
      known.slots.push(...slots);
      return;
    }
    const used = keys.get(whole) ?? { held: new Set(), queued: new Set(), permits: 0 };
    keys.set(whole, used);
    (slots.length > 0 ? used.held : used.queued).add(resource);
    used.permits += slots.length;
    known.keys = { held: used.held.size, permits: used.permits, queued: used.queued.size };
  };
  for (const { resource, slot } of await listAllHolders(client)) add(resource, [slot]);
  for (const resource of await listQueues(client)) add(resource, []);
  return resources;
}

/** The same, with each key's pool by itself. */
async function allPoolsInUse(client: Client): Promise<Map<string, ResourceInUse>> {
  const pools = new Map<string, ResourceInUse>();
  const add = (resource: string, slots: string[]) => {
    const known = pools.get(resource) ?? { slots: [] };
    known.slots.push(...slots);
    if (isResource(resource)) pools.set(resource, known);
  };
  for (const { resource, slot } of await listAllHolders(client)) add(resource, [slot]);
  for (const resource of await listQueues(client)) add(resource, []);
  return pools;
}

interface LookOptions extends Pick<PoolOptions, 'taskQueue'> {
  /** Also at the pools of keys, each by itself. @default false: they are counted with their resource */
  keys?: boolean;
}

/** How long all looks together may take. Anybody may start thousands of permits. */
const LOOKS_WITHIN_MS = 6_000;

/**
 * Looks at each pool of the namespace that has a holder or a queue. The list of pools is seconds late. Those that it can't look at
 * within six seconds have that for a `problem`.
 * @throws the first pool's error when every look has failed
 */
export async function poolsInUse(client: Client, options: LookOptions): Promise<SeenPool[]> {
  const inUse = await (options.keys ? allPoolsInUse(client) : resourcesInUse(client));
  const errors: unknown[] = [];
  const queries = new WorkerQueries(new Server(client), ANSWERS_WITHIN_MS);
  const over = new AbortController();
  const timeUp = pause(LOOKS_WITHIN_MS, over.signal).then(() => {
    throw new Error(`not looked at: the looks at ${inUse.size} resources took more than ${LOOKS_WITHIN_MS / 1_000} s`);
  });
  timeUp.catch(() => undefined);
  const untilMs = monotonicMs() + LOOKS_WITHIN_MS;
  const pools = await mapConcurrently([...inUse.keys()].sort(), async (resource): Promise<SeenPool> => {
    try {
      const { slots = [], keys } = inUse.get(resource) ?? {};
      if (monotonicMs() >= untilMs) await timeUp;
      const byName = new PoolByName(client, resource, options);
      byName.addSlots(slots);
      const pool = await Promise.race([byName.inspect({ recent: 0, queries }), timeUp]);
      return keys ? { ...pool, keys } : pool;
    } catch (error) {
      errors.push(error);
      return { resource, slots: [], waiters: [], queue: 'silent', recent: [], problem: messageOf(error) };
    }
  });
  over.abort();
  // One failed look must not hide the other pools. When all have failed, the cause is not a pool.
  if (errors.length > 0 && errors.length === pools.length) throw errors[0];
  return pools;
}
