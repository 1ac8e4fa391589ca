import type { Client } from '@temporalio/client';
import { mapConcurrently } from '../client/map-concurrently';
import { messageOf } from '../client/message';
import { lenientReader } from '../client/operator/lenient-reader';
import { listHolders } from '../client/operator/visibility';
import { checkResource, resourceOfQueue } from '../shared/permit-id';
import { QUEUE_WORKFLOW } from '../shared/protocol';
import { PoolView, type SeenPool, type SlotFlags } from './pool';

/** All resources of the namespace of which somebody holds or waits for a permit, and the slots held; seconds late. */
export async function resourcesInUse(client: Client): Promise<Map<string, string[]>> {
  const resources = new Map<string, string[]>();
  const add = (resource: string, slots: string[]) => {
    if (isResource(resource)) resources.set(resource, [...(resources.get(resource) ?? []), ...slots]);
  };
  for (const { resource, slot } of await listHolders(client)) add(resource, [slot]);
  const query = `WorkflowType = "${QUEUE_WORKFLOW}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId } of lenientReader(client).list({ query })) add(resourceOfQueue(workflowId), []);
  return resources;
}

/** All pools of the namespace of which somebody holds or waits for a permit. Which those are is seconds late. */
export async function poolsInUse(client: Client, flags: Pick<SlotFlags, 'taskQueue'>): Promise<SeenPool[]> {
  const resources = [...(await resourcesInUse(client)).keys()].sort();
  const errors: unknown[] = [];
  const pools = await mapConcurrently(resources, async (resource): Promise<SeenPool> => {
    try {
      return await new PoolView(client, resource, flags).look(0);
    } catch (error) {
      errors.push(error);
      return { resource, slots: [], waiters: [], queue: 'silent', recent: [], problem: messageOf(error) };
    }
  });
  // One pool that can't be looked at must not hide the others. When none can, it is not the pools.
  if (errors.length > 0 && errors.length === pools.length) throw errors[0];
  return pools;
}

/** Not so in somebody else's Workflow, of that type by chance: no pool can have such a name. */
function isResource(name: string): boolean {
  try {
    checkResource(name);
    return true;
  } catch {
    return false;
  }
}
