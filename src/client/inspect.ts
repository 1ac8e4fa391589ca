import { type WorkflowExecutionDescription, WorkflowNotFoundError } from '@temporalio/client';
import { permitId, queueId } from '../shared/permit-id';
import { PERMIT_VIEW, type PermitView, QUEUE_VIEW, type QueueView } from '../shared/protocol';
import { slotNames } from '../shared/slots';
import { TurnOrder } from '../shared/turn-order';
import type { Inspection, PermitInspection, SlotInspection, WaiterInspection } from './inspection';
import { inLanes } from './lanes';
import { shown } from './override';
import { permitOf, stateOf } from './permit-memo';
import { Questions } from './questions';
import type { Server } from './server';

/** How long all questions to workers may take together. */
const ANSWERS_WITHIN_MS = 2_000;

/** Temporal's default. */
const DEFAULT_PRIORITY_KEY = 3;

/** Looks at one resource, and never writes to what it looks at: `describe` and queries leave no trace in a history. */
export class Inspector {
  constructor(
    private readonly server: Server,
    private readonly resource: string,
  ) {}

  /**
   * @param slots what the resource is deployed with; those that the queue knows besides are looked at too
   */
  async look(slots: readonly string[]): Promise<Omit<Inspection, 'recent'>> {
    const { resource } = this;
    const questions = new Questions(this.server, ANSWERS_WITHIN_MS);
    const lookAt = (slot: string) => this.slot(slot, questions);
    const [own, { queue, view }] = await Promise.all([inLanes(slots, lookAt), this.queue(questions)]);
    const added = view?.override && !view.override.paused ? slotNames(view.override.capacity ?? 0) : [];
    const known = (view?.slots ?? []).map(([slot]) => slot).filter((slot) => !slots.includes(slot));
    const others = (await inLanes(known, lookAt)).filter(({ slot, state }) => state !== 'free' || added.includes(slot));
    const waiters = view ? waitersOf(view) : [];
    const override = view?.override && shown(view.override);
    const capacity = override?.capacity ?? slots.length;
    return { resource, capacity, slots: [...own, ...others], waiters, queue, ...(override && { override }) };
  }

  /** The permit that holds the slot now, all that its memo says; `undefined` when none does. */
  async permit(slot: string): Promise<PermitInspection | undefined> {
    const description = await this.describe(permitId({ resource: this.resource, slot }));
    return description && permitOf(description);
  }

  /**
   * Permits of drained slots which the present queue knows nothing of: one that was terminated has left them. They are
   * described before the queue is asked, so that what it has drained since is not taken for one.
   */
  async orphans(slots: readonly string[]): Promise<PermitInspection[]> {
    const permits = await inLanes(slots, async (slot) => ({ slot, permit: await this.permit(slot) }));
    const { queue, view } = await this.queue(new Questions(this.server, ANSWERS_WITHIN_MS));
    if (queue === 'silent') return [];
    const known = new Map(view?.slots);
    return permits.flatMap(({ slot, permit }) => {
      if (!permit || stateOf(this.resource, permit) !== 'drained') return [];
      const state = known.get(slot);
      const isKnown = state?.at === 'draining' || (state && 'runId' in state && state.runId === permit.runId);
      return isKnown ? [] : [permit];
    });
  }

  private async slot(slot: string, questions: Questions): Promise<SlotInspection> {
    const permit = await this.permit(slot);
    if (!permit) return { slot, state: 'free' };
    const { workflowId, runId } = permit;
    const handle = this.server.client.workflow.getHandle(workflowId, runId);
    const view = await questions.ask<PermitView>(handle, PERMIT_VIEW);
    if (view) permit.leaseDeadline = new Date(view.deadlineMs);
    return { slot, state: stateOf(this.resource, permit), permit };
  }

  private async queue(questions: Questions): Promise<{ queue: Inspection['queue']; view?: QueueView }> {
    const queue = await this.describe(queueId(this.resource));
    if (!queue) return { queue: 'none' };
    const handle = this.server.client.workflow.getHandle(queue.workflowId);
    const view = await questions.ask<QueueView>(handle, QUEUE_VIEW);
    return view ? { queue: 'running', view } : { queue: 'silent' };
  }

  /** `undefined` when it does not run. */
  private async describe(workflowId: string): Promise<WorkflowExecutionDescription | undefined> {
    try {
      const description = await this.server.call(() => this.server.client.workflow.getHandle(workflowId).describe());
      return description.status.name === 'RUNNING' ? description : undefined;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    }
  }
}

/** Who has a turn comes first, then the others as they would be served if nobody else came. */
function waitersOf({ tickets, slots, shares }: QueueView): WaiterInspection[] {
  const turns = new Map<string, string>();
  for (const [slot, state] of slots) if (state.at === 'offered') turns.set(state.ticketId, slot);
  const called = tickets.filter(({ id }) => turns.has(id));
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
