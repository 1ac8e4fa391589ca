import { Client } from '@temporalio/client';

type History = Client['workflowService']['getWorkflowExecutionHistory'];
type Request = Parameters<History>[0];

/** A client of the same connection, for which `change` makes the answer to each request for a history, also to each long poll. */
export function withHistories(
  { connection, workflowService }: Client,
  change: (request: Request, ask: () => ReturnType<History>) => ReturnType<History>,
): Client {
  const ask = workflowService.getWorkflowExecutionHistory.bind(workflowService);
  const value = (request: Request) => change(request, () => ask(request));
  const service = Object.create(workflowService, { getWorkflowExecutionHistory: { value } });
  return new Client({ connection: Object.create(connection, { workflowService: { value: service } }) });
}
