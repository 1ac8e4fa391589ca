import type { TestContext } from 'node:test';
import type { Client } from '@temporalio/client';

/** What a server says that it can do with activities which a client starts, without a Workflow. */
type Capability = 'standaloneActivities' | 'standaloneActivityOperatorCommands';

/** Whether the server can do it. Otherwise the test is left out, and says so. */
export async function serverHas(capability: Capability, client: Client, test: TestContext): Promise<boolean> {
  const { workflowService, options } = client;
  const { namespaceInfo } = await workflowService.describeNamespace({ namespace: options.namespace });
  const capabilities: Partial<Record<Capability, boolean | null>> = namespaceInfo?.capabilities ?? {};
  if (capabilities[capability]) return true;
  test.skip(`this server has no ${capability}: server 1.32 has it`);
  return false;
}
