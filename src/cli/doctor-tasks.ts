import type { Client } from '@temporalio/client';
import { type StuckWorkflows, stuckWorkflows } from '../client/operators';
import type { Finding } from './doctor-checks';
import { count } from './wording';

/** What the SDK's worker answers for a Workflow type that its bundle does not export. */
const NOT_EXPORTED = /no such function is exported by the workflow bundle/;

/** Workflows of this library that run and can't go on. */
export async function failingTasks(client: Client): Promise<Finding[]> {
  return (await stuckWorkflows(client)).map(finding);
}

function finding({ type, reason, runs }: StuckWorkflows): Finding {
  const queues = [...new Set(runs.map(({ taskQueue }) => `"${taskQueue}"`))].join(', ');
  if (NOT_EXPORTED.test(reason)) {
    return {
      is: 'bad',
      what: `a worker of task queue ${queues} has no ${type}: ${count(runs.length, 'Workflow')} can't go on`,
      advice: "Its Workflows file needs: export * from 'temporal-semaphore/workflows';",
    };
  }
  return {
    is: 'bad',
    what: `${runs[0]?.workflowId} on task queue ${queues} can't go on because its Workflow Task fails: ${reason}`,
    advice: "The worker's log says more.",
  };
}
