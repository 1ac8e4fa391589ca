import { type WorkflowClient, type WorkflowExecutionDescription, WorkflowNotFoundError } from '@temporalio/client';
import { DEFAULT_PRIORITY_KEY } from '../../shared/limits';
import { type OverrideState, PERMIT_STATUS } from '../../shared/operator-protocol';
import { MAX_SLOTS } from '../../shared/options';
import { PACED_PERMIT_WORKFLOW } from '../../shared/pace-protocol';
import { permitId, queueId } from '../../shared/permit-id';
import { type Holder, PERMIT_WORKFLOW, QUEUE_WORKFLOW, type Ticket } from '../../shared/protocol';
import { QUEUE_VIEW, type QueueView } from '../../shared/queue-view';
import { slotNames } from '../../shared/slots';
import { TurnOrder } from '../../shared/turn-order';
import { mapConcurrently } from '../map-concurrently';
import type { Server } from '../server';
import { disagreement } from './agreement';
import { recordOf, timeOf } from './foreign-values';
import type { Inspection, PermitInspection, SlotInspection, Stranger, WaiterInspection } from './inspection';
import { lenientReader } from './lenient-reader';
import { shown } from './override';
import { permitAddress, permitOf, stateOf } from './permit-memo';
import { readQueueView } from './queue-view';
import { WorkerQueries } from './worker-queries';

/** The limit of time for all queries of one look. */
export const ANSWERS_WITHIN_MS = 2_000;

const PERMIT_TYPES: readonly string[] = [PERMIT_WORKFLOW, PACED_PERMIT_WORKFLOW];

/** Inspects one resource. It never writes: `describe` and queries leave no trace in a history. */
export class Inspector {
  private readonly reader: WorkflowClient;

  constructor(
    private readonly server: Server,
    private readonly resource: string,
  ) {
    this.reader = lenientReader(server.client);
  }

  /**
   * @param slots the slots that the resource is deployed with; the look covers others that the queue knows too
   */
  async look(
    slots: readonly string[],
    queries = new WorkerQueries(this.server, ANSWERS_WITHIN_MS),
  ): Promise<Omit<Inspection, 'recent'>> {
    const { resource } = this;
    const strangers: Stranger[] = [];
    const lookAt = (slot: string) => this.slot(slot, queries, strangers);
    const [own, { queue, view }] = await Promise.all([mapConcurrently(slots, lookAt), this.queue(queries, strangers)]);
    const added = view?.override ? addedSlots(view.override) : [];
    const known = (view?.slots ?? []).map(([slot]) => slot).filter((slot) => this.canBe(slot));
    // The queue does not remember a slot that nobody has used yet, so the slots that an operator has added come from the override.
    const more = [...new Set([...added, ...known])].filter((slot) => !slots.includes(slot)).slice(0, MAX_SLOTS);
    const others = (await mapConcurrently(more, lookAt)).filter(
      ({ slot, state }) => state !== 'free' || added.includes(slot),
    );
    const holders = new Map([...own, ...others].map(({ slot, permit }) => [slot, permit?.holder]));
    const waiters = view ? waitersOf(view, holders) : [];
    const override = view?.override && shown(view.override);
    const capacity = override?.capacity ?? slots.length;
    const seen = [...own, ...others];
    const beliefs = disagreement(seen, view?.tickets ?? []);
    return {
      resource,
      capacity,
      slots: seen,
      waiters,
      queue,
      ...(override && { override }),
      ...(beliefs && { disagreement: beliefs }),
      ...(strangers.length > 0 && { strangers }),
    };
  }

  /** The permit that holds the slot now, as its memo describes it; `undefined` when nobody holds the slot. */
  async permit(slot: string): Promise<PermitInspection | undefined> {
    const description = await this.describe(permitId({ resource: this.resource, slot }));
    return description && permitOf(description);
  }

  private async slot(slot: string, queries: WorkerQueries, strangers: Stranger[]): Promise<SlotInspection> {
    const description = await this.describe(permitId({ resource: this.resource, slot }));
    if (!description) return { slot, state: 'free' };
    const permit = permitOf(description);
    const { workflowId, runId } = permit;
    if (!PERMIT_TYPES.includes(description.type)) {
      strangers.push({ workflowId, runId, type: description.type });
      return { slot, state: 'held', permit };
    }
    const view = await queries.ask(this.reader.getHandle(workflowId, runId), description.taskQueue, PERMIT_STATUS);
    const deadlineMs = timeOf(recordOf(view).deadlineMs);
    if (deadlineMs !== undefined) permit.leaseDeadline = new Date(deadlineMs);
    return { slot, state: stateOf(this.resource, permit), permit };
  }

  private async queue(
    queries: WorkerQueries,
    strangers: Stranger[],
  ): Promise<{ queue: Inspection['queue']; view?: QueueView }> {
    const queue = await this.describe(queueId(this.resource));
    if (!queue) return { queue: 'none' };
    if (queue.type === QUEUE_WORKFLOW) {
      const view = await this.viewOf(queue, queries);
      return view ? { queue: 'running', view } : { queue: 'silent' };
    }
    const { workflowId, runId, type } = queue;
    strangers.push({ workflowId, runId, type });
    return { queue: 'silent' };
  }

  /** What the queue says of itself. `undefined`: there is none, or no worker answers for it. */
  async view(queries: WorkerQueries): Promise<QueueView | undefined> {
    const queue = await this.describe(queueId(this.resource));
    return queue?.type === QUEUE_WORKFLOW ? await this.viewOf(queue, queries) : undefined;
  }

  private async viewOf({ workflowId, taskQueue }: WorkflowExecutionDescription, queries: WorkerQueries) {
    return readQueueView(await queries.ask(this.reader.getHandle(workflowId), taskQueue, QUEUE_VIEW));
  }

  private canBe(slot: string): boolean {
    return permitAddress(permitId({ resource: this.resource, slot })) !== undefined;
  }

  /** `undefined` when the Workflow does not run. */
  private async describe(workflowId: string): Promise<WorkflowExecutionDescription | undefined> {
    try {
      const description = await this.server.call(() => this.reader.getHandle(workflowId).describe());
      return description.status.name === 'RUNNING' ? description : undefined;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    }
  }
}

/** The slots that an operator has added to a pool. An operator can't add to named slots, and a paused pool offers none. */
function addedSlots({ slots, capacity = 0, paused }: OverrideState): readonly string[] {
  return typeof slots === 'number' && !paused ? slotNames(capacity) : [];
}

/** Waiters with a turn come first; then the others in the order in which they would be served if nobody else came. */
function waitersOf(
  { tickets, slots, shares }: QueueView,
  holders: Map<string, Holder | undefined>,
): WaiterInspection[] {
  const turns = new Map<string, string>();
  for (const [slot, state] of slots) if (state.at === 'offered' && !state.reserved) turns.set(state.ticketId, slot);
  // The queue learns only seconds later that a waiter has used its turn. The permit shows it at once.
  const called = tickets.filter((ticket) => {
    const turn = turns.get(ticket.id);
    return turn !== undefined && !isHeldBy(ticket, holders.get(turn));
  });
  const parked = new TurnOrder(shares).sort(tickets.filter(({ id }) => !turns.has(id)));
  return [...called, ...parked].map(({ id, waiter, identity, priorityKey, fairnessKey, sinceMs }, index) => {
    const turn = turns.get(id);
    return {
      place: index + 1,
      ticketId: id,
      workflowId: waiter.workflowId,
      runId: waiter.runId,
      ...(identity && { identity }),
      priorityKey: priorityKey || DEFAULT_PRIORITY_KEY,
      ...(fairnessKey && { fairnessKey }),
      since: new Date(sinceMs),
      ...(turn !== undefined && { turn }),
    };
  });
}

/** Whether the waiter holds the slot by now. A client waits through a Workflow, and holds by its identity. */
function isHeldBy({ waiter, identity }: Ticket, holder: Holder | undefined): boolean {
  if (!holder) return false;
  if (holder.workflowId === undefined) return identity !== undefined && holder.identity === identity;
  return holder.workflowId === waiter.workflowId && holder.runId === waiter.runId;
}
