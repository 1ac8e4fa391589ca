import type { Client } from '@temporalio/client';
import { inLanes } from '../client/lanes';
import { listHolders } from '../client/visibility';
import { resourceOfQueue } from '../shared/permit-id';
import { QUEUE_WORKFLOW } from '../shared/protocol';
import { type PoolFlags, PoolView, type SeenPool } from './pool';

/** All pools of the namespace of which somebody holds or waits for a permit. Which those are is seconds late. */
export async function poolsInUse(client: Client, flags: Omit<PoolFlags, 'capacity' | 'slots'>): Promise<SeenPool[]> {
  const resources = new Set((await listHolders(client)).map(({ resource }) => resource));
  const query = `WorkflowType = "${QUEUE_WORKFLOW}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId } of client.workflow.list({ query })) resources.add(resourceOfQueue(workflowId));
  const pools = await inLanes([...resources].sort(), async (resource) => await seen(client, resource, flags));
  return pools.filter((pool) => pool !== undefined);
}

/** `undefined`: somebody else's Workflow, of that type by chance. */
async function seen(client: Client, resource: string, flags: PoolFlags): Promise<SeenPool | undefined> {
  if (resource === '') return undefined;
  return await new PoolView(client, resource, flags).look(0);
}
