import type { Client } from '@temporalio/client';
import { isResource, resourceOfQueue } from '../../shared/permit-id';
import { QUEUE_WORKFLOW } from '../../shared/protocol';
import { messageOf } from '../errors';
import { mapConcurrently } from '../map-concurrently';
import { lenientReader } from './lenient-reader';
import { PoolByName, type PoolOptions, type SeenPool } from './pool-by-name';
import { listHolders } from './visibility';

/** All resources of the namespace that have a holder or a queue, with their held slots; seconds late. */
export async function resourcesInUse(client: Client): Promise<Map<string, string[]>> {
  const resources = new Map<string, string[]>();
  const add = (resource: string, slots: string[]) => {
    // A stranger's Workflow may have our type by chance, and a name that no pool can have.
    if (isResource(resource)) resources.set(resource, [...(resources.get(resource) ?? []), ...slots]);
  };
  for (const { resource, slot } of await listHolders(client)) add(resource, [slot]);
  const query = `WorkflowType = "${QUEUE_WORKFLOW}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId } of lenientReader(client).list({ query })) add(resourceOfQueue(workflowId), []);
  return resources;
}

/**
 * Looks at each pool of the namespace that has a holder or a queue. The list of pools is seconds late.
 * @throws the first pool's error when every look has failed
 */
export async function poolsInUse(client: Client, options: Pick<PoolOptions, 'taskQueue'>): Promise<SeenPool[]> {
  const resources = [...(await resourcesInUse(client)).keys()].sort();
  const errors: unknown[] = [];
  const pools = await mapConcurrently(resources, async (resource): Promise<SeenPool> => {
    try {
      return await new PoolByName(client, resource, options).inspect({ recent: 0, search: true });
    } catch (error) {
      errors.push(error);
      return { resource, slots: [], waiters: [], queue: 'silent', recent: [], problem: messageOf(error) };
    }
  });
  // One failed look must not hide the other pools. When all have failed, the cause is not a pool.
  if (errors.length > 0 && errors.length === pools.length) throw errors[0];
  return pools;
}
