import type { Client } from '@temporalio/client';
import { accumulatorResource, isKeyPool, wholeOf } from '../../shared/key-pool';
import { isResource, resourceOfQueue } from '../../shared/permit-id';
import { QUEUE_WORKFLOW } from '../../shared/protocol';
import { messageOf } from '../errors';
import { mapConcurrently } from '../map-concurrently';
import { lenientReader } from './lenient-reader';
import { type KeysInUse, PoolByName, type PoolOptions, type SeenPool } from './pool-by-name';
import { listHolders } from './visibility';

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
  for (const { resource, slot } of await listHolders(client)) add(resource, [slot]);
  for await (const { workflowId } of lenientReader(client).list({ query: QUEUES }))
    add(resourceOfQueue(workflowId), []);
  return resources;
}

/** All pools of which somebody holds or waits for a permit, with each key's pool by itself. */
async function allPoolsInUse(client: Client): Promise<string[]> {
  const pools = new Set<string>();
  for (const { resource } of await listHolders(client)) pools.add(resource);
  for await (const { workflowId } of lenientReader(client).list({ query: QUEUES }))
    pools.add(resourceOfQueue(workflowId));
  return [...pools].filter(isResource);
}

const QUEUES = `WorkflowType = "${QUEUE_WORKFLOW}" AND ExecutionStatus = "Running"`;

interface LookOptions extends Pick<PoolOptions, 'taskQueue'> {
  /** Also at the pools of keys, each by itself. @default false: they are counted with their resource */
  keys?: boolean;
}

/**
 * Looks at each pool of the namespace that has a holder or a queue. The list of pools is seconds late.
 * @throws the first pool's error when every look has failed
 */
export async function poolsInUse(client: Client, options: LookOptions): Promise<SeenPool[]> {
  const inUse = options.keys ? undefined : await resourcesInUse(client);
  const resources = [...(inUse?.keys() ?? (await allPoolsInUse(client)))].sort();
  const errors: unknown[] = [];
  const pools = await mapConcurrently(resources, async (resource): Promise<SeenPool> => {
    try {
      const pool = await new PoolByName(client, resource, options).inspect({ recent: 0, search: true });
      const keys = inUse?.get(resource)?.keys;
      return keys ? { ...pool, keys } : pool;
    } catch (error) {
      errors.push(error);
      return { resource, slots: [], waiters: [], queue: 'silent', recent: [], problem: messageOf(error) };
    }
  });
  // One failed look must not hide the other pools. When all have failed, the cause is not a pool.
  if (errors.length > 0 && errors.length === pools.length) throw errors[0];
  return pools;
}
