import { shellWord } from '../client/server/commands';
import type { Stranger } from './inspection';

// What a message tells an operator to type.

/** What to do about Workflows of another type under IDs of ours, told of the first. */
export function strangersRemedy([first]: readonly Stranger[]): string {
  const command = first && `temporal workflow terminate -w ${shellWord(first.workflowId)} -r ${first.runId}`;
  return `Such a Workflow keeps its slot, or the queue, until it ends: terminate it by its ID (${command}), and let nothing else use IDs that begin with "permit". The next waiter then gets the slot within 4 minutes.`;
}
