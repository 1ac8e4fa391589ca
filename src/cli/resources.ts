import type { Client } from '@temporalio/client';
import { inLanes } from '../client/lanes';
import { listHolders } from '../client/visibility';
import { resourceOfQueue } from '../shared/permit-id';
import { QUEUE_WORKFLOW } from '../shared/protocol';
import { type PoolFlags, PoolView, type SeenPool } from './pool';

/** All resources of the namespace of which somebody holds or waits for a permit, and the slots held; seconds late. */
export async function resourcesInUse(client: Client): Promise<Map<string, string[]>> {
  const resources = new Map<string, string[]>();
  const add = (resource: string, slots: string[]) => {
    // An empty name is in somebody else's Workflow, of that type by chance.
    if (resource !== '') resources.set(resource, [...(resources.get(resource) ?? []), ...slots]);
  };
  for (const { resource, slot } of await listHolders(client)) add(resource, [slot]);
  const query = `WorkflowType = "${QUEUE_WORKFLOW}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId } of client.workflow.list({ query })) add(resourceOfQueue(workflowId), []);
  return resources;
}

/** All pools of the namespace of which somebody holds or waits for a permit. Which those are is seconds late. */
export async function poolsInUse(client: Client, flags: Omit<PoolFlags, 'capacity' | 'slots'>): Promise<SeenPool[]> {
  const resources = [...(await resourcesInUse(client)).keys()].sort();
  return await inLanes(resources, async (resource) => await new PoolView(client, resource, flags).look(0));
}
