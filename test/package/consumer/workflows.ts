import { Semaphore } from 'temporal-semaphore/workflow';

export * from 'temporal-semaphore/workflows';

/** Takes the one permit there is, and tells what it got. */
export async function train(resource: string, permitQueue?: string): Promise<string> {
  const gpus = new Semaphore(resource, { capacity: 1, taskQueue: permitQueue });
  return await gpus.withPermit(async (permit) => permit.workflowId);
}
