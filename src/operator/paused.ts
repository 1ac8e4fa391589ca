import { unpauseCommand } from '../client/server/commands';
import { queueId } from '../shared/permit-id';
import type { Inspection } from './inspection';

/** Workflows of one resource that were paused on the server, and what their pause does. */
export interface Paused {
  /** Whether the pause stops a slot or the queue. Otherwise it stops only the paused caller. */
  stops: boolean;
  what: string;
  /** The consequence, and the command that ends the pause, for the first of the Workflows. */
  advice: string;
}

type Seen = Pick<Inspection, 'resource' | 'slots' | 'waiters' | 'queue'>;

/** What is paused of a resource, as far as a look has found. A look does not ask for the Workflows of the holders. */
export function pausedIn({ resource, slots, waiters, queue }: Seen): Paused[] {
  const [permit, ...others] = slots.flatMap(({ permit }) => (permit?.paused ? permit : []));
  const [waiter, ...moreWaiters] = waiters.filter(({ paused }) => paused);
  const found: Paused[] = [];
  if (permit) {
    const { workflowId, holder } = permit;
    const by = holder.workflowId ?? holder.identity ?? 'unknown';
    found.push({
      stops: true,
      what: `${workflowId}, the permit of ${by}${others.length > 0 ? ` (and ${others.length} more permit${others.length > 1 ? 's' : ''})` : ''}, is paused on the server`,
      advice: `It keeps its slot: no release, revocation or lease ends it before it is unpaused: ${unpauseCommand(workflowId)}`,
    });
  }
  if (queue === 'paused') {
    const workflowId = queueId(resource);
    found.push({
      stops: true,
      what: `${workflowId} is paused on the server`,
      advice: `Until the queue is unpaused, it takes no operator commands, and waiters find free slots only by trying: ${unpauseCommand(workflowId)}`,
    });
  }
  if (waiter) found.push(pausedCaller({ resource, ...waiter }, moreWaiters.length));
  return found;
}

/** A Workflow that neither holds a permit nor waits in a queue by now. */
export function pausedWorkflow(workflowId: string): Paused {
  return {
    stops: false,
    what: `${workflowId} is paused on the server`,
    advice: `A permit that it held has ended with its lease. To let it go on: ${unpauseCommand(workflowId)}`,
  };
}

/** @param slot the slot that the caller holds; absent where it waits @param more how many more do the same */
export function pausedCaller(
  { resource, workflowId, slot }: { resource: string; workflowId: string; slot?: string },
  more: number,
): Paused {
  const others = more > 0 ? ` (and ${more} more like it)` : '';
  const does = slot === undefined ? 'waits for a permit' : `holds slot "${slot}"`;
  const comes =
    slot === undefined
      ? 'Its turns pass to the next waiters'
      : 'It does not renew, so its lease ends the permit, although a running activity goes on';
  return {
    stops: false,
    what: `${workflowId}, which ${does} of "${resource}"${others}, is paused on the server`,
    advice: `${comes}. To let it go on: ${unpauseCommand(workflowId)}`,
  };
}
