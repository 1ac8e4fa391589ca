import type { WorkflowClient, WorkflowExecutionDescription } from '@temporalio/client';
import { monotonicMs } from '../client/server/clock';
import { describeOpen, lenientReader } from '../client/server/lenient-reader';
import { LongWaiters, type LookedAtWaiter } from '../client/server/long-waiters';
import { mapConcurrently } from '../client/server/map-concurrently';
import type { Server } from '../client/server/server';
import { readDeadlineMs, readPermitMemo } from '../shared/lenient-input';
import { isPaused } from '../shared/open';
import { permitId, queueId } from '../shared/permit-id';
import { DEFAULT_PRIORITY_KEY } from '../shared/priority';
import {
  type Holder,
  type OverrideState,
  PERMIT_STATUS,
  PERMIT_WORKFLOWS,
  QUEUE_VIEW,
  QUEUE_WORKFLOW,
  type QueueView,
  type SlotsMark,
  type Ticket,
} from '../shared/protocol';
import { readQueueView } from '../shared/queue-view';
import { MAX_SLOTS, slotNames, slotsMark } from '../shared/slots';
import { TurnOrder } from '../shared/turn-order';
import { ForeignWorkflowError } from './errors';
import type {
  Inspection,
  Override,
  PermitInspection,
  SlotInspection,
  SlotsBelief,
  Stranger,
  WaiterInspection,
} from './inspection';
import { permitAddress, permitOf, stateOf } from './reader';
import { WorkerQueries } from './worker-queries';

/** A look asks about each Workflow that has waited for this long. */
const WAITS_LONG_MS = 30_000;

/** The limit of time for all queries of one look. */
export const ANSWERS_WITHIN_MS = 2_000;

/** Who makes the queries of a look, each of which is an Action on Temporal Cloud. */
export interface Asking {
  readonly queries: WorkerQueries;
  /** For how long an answer serves later looks, unless it must have changed by then. 0: each look asks. */
  readonly servesMs: number;
  /** Asked before each query of a permit; `false` spares it. */
  readonly mayAskPermit?: () => boolean;
}

const SPARED = Symbol('spared');

/** What one look at a resource finds. */
export type Look = Omit<Inspection, 'held' | 'free' | 'waiting' | 'recent'> & { capacity: number };

/** Inspects one resource. It never writes: `describe` and queries leave no trace in a history. */
export class Inspector {
  private readonly reader: WorkflowClient;
  /** The last answer of each Workflow. */
  private readonly answers = new Map<string, { runId: string; historyLength: number; atMs: number; answer: unknown }>();

  private readonly waiters = new LongWaiters(WAITS_LONG_MS);

  constructor(
    private readonly server: Server,
    private readonly resource: string,
  ) {
    this.reader = lenientReader(server.client);
  }

  /**
   * @param slots the slots that the resource is deployed with; the look also covers others that the queue knows …
   * @param beyond … and these, while they are held
   */
  async look(slots: readonly string[], asking: Partial<Asking> = {}, beyond: Iterable<string> = []): Promise<Look> {
    const { resource } = this;
    const { queries = new WorkerQueries(this.server, ANSWERS_WITHIN_MS), servesMs = 0, mayAskPermit } = asking;
    const strangers: Stranger[] = [];
    const lookAt = (slot: string) => this.slot(slot, { queries, servesMs, mayAskPermit }, strangers);
    const lookAtQueue = this.queue({ queries, servesMs });
    const [own, { queue, taskQueue, view: told, stranger }] = await Promise.all([
      mapConcurrently(slots, lookAt),
      lookAtQueue,
    ]);
    if (stranger) strangers.push(stranger);
    const view = told && { ...told, tickets: await this.thoseThere(told.tickets) };
    const added = view?.override ? addedSlots(view.override) : [];
    const known = (view?.slots ?? []).map(([slot]) => slot).filter((slot) => this.canBe(slot));
    // The queue does not remember a slot that was never used, so the override shows which slots an operator has added.
    const more = [...new Set([...added, ...known, ...beyond])]
      .filter((slot) => !slots.includes(slot))
      .slice(0, MAX_SLOTS);
    const others = (await mapConcurrently(more, lookAt)).flatMap((seen): SlotInspection[] => {
      if (seen.state !== 'free') return [seen];
      // The queue claims no added slot of a paused resource: it just does not offer one.
      return added.includes(seen.slot) ? [{ ...seen, state: view?.override?.paused ? 'drained' : 'free' }] : [];
    });
    const holders = new Map([...own, ...others].map(({ slot, permit }) => [slot, permit?.holder]));
    const waiters = view ? waitersOf(view, holders, (ticket) => this.waiters.of(ticket)) : [];
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
      ...(taskQueue !== undefined && { taskQueue }),
      ...(override && { override }),
      ...(beliefs && { disagreement: beliefs }),
      ...(strangers.length > 0 && { strangers }),
    };
  }

  /**
   * The permit that holds the slot now, as its memo describes it. `undefined` if the slot is not held.
   * @throws ForeignWorkflowError
   */
  async permit(slot: string): Promise<PermitInspection | undefined> {
    const description = await this.describe(permitId({ resource: this.resource, slot }));
    const stranger = description && strangerIn(description, PERMIT_WORKFLOWS);
    if (stranger) throw new ForeignWorkflowError(stranger);
    return description && permitOf(description);
  }

  /** The task queue of a permit in one of these slots; `undefined` when none runs. */
  async permitTaskQueue(slots: readonly string[]): Promise<string | undefined> {
    const permits = await mapConcurrently(slots, (slot) => this.describe(permitId({ resource: this.resource, slot })));
    return permits.find((permit) => permit && PERMIT_WORKFLOWS.includes(permit.type))?.taskQueue;
  }

  async slot(slot: string, asking: Asking, strangers: Stranger[] = []): Promise<SlotInspection> {
    const description = await this.describe(permitId({ resource: this.resource, slot }));
    if (!description) return { slot, state: 'free' };
    const permit = permitOf(description);
    const stranger = strangerIn(description, PERMIT_WORKFLOWS);
    if (stranger) {
      strangers.push(stranger);
      return { slot, state: 'held', permit };
    }
    if (permit.paused) return { slot, state: stateOf(this.resource, permit), permit }; // it answers no query
    // A renewal makes the lease longer. Showing that a little later saves a query.
    const isAhead = (answer: unknown) => (readDeadlineMs(answer) ?? 0) > Date.now();
    const answer = await this.answer(description, PERMIT_STATUS, asking, isAhead);
    if (answer === SPARED) permit.leaseSpared = true;
    const deadlineMs = readDeadlineMs(answer);
    if (deadlineMs === undefined) return { slot, state: stateOf(this.resource, permit), permit };
    permit.leaseDeadline = new Date(deadlineMs);
    const renewedAtMs = deadlineMs - (readPermitMemo(description.memo).leaseMs ?? Number.NaN);
    const isOther = permit.pacedUntil !== undefined || permit.preemptedUntil !== undefined;
    if (renewedAtMs <= Date.now() && !isOther) permit.renewedAt = new Date(renewedAtMs);
    return { slot, state: stateOf(this.resource, permit), permit };
  }

  /** The queue and its answer: there is no `view` if no queue runs, the queue is paused, or no worker answers for it. */
  async queue(
    asking: Asking,
  ): Promise<Pick<Inspection, 'queue' | 'taskQueue'> & { view?: QueueView; stranger?: Stranger }> {
    const queue = await this.describe(queueId(this.resource));
    if (!queue) return { queue: 'none' };
    const stranger = strangerIn(queue, [QUEUE_WORKFLOW]);
    if (stranger) return { queue: 'silent', stranger };
    const { taskQueue } = queue;
    if (isPaused(queue)) return { queue: 'paused', taskQueue };
    const view = readQueueView(this.resource, await this.answer(queue, QUEUE_VIEW, asking));
    return view ? { queue: 'running', taskQueue, view } : { queue: 'silent', taskQueue };
  }

  /** The queue's run, without a query; `undefined` if no queue runs. If it is paused on the server, it takes no operator command. */
  async queueRun(): Promise<{ taskQueue: string; isPaused: boolean; stranger?: Stranger } | undefined> {
    const queue = await this.describe(queueId(this.resource));
    const stranger = queue && strangerIn(queue, [QUEUE_WORKFLOW]);
    return queue && { taskQueue: queue.taskQueue, isPaused: isPaused(queue), ...(stranger && { stranger }) };
  }

  /**
   * Asks a Workflow, unless its last answer still serves: its history has not changed since, so it would say the same.
   *
   * @param serves whether the last answer is good enough although the history has changed; if it is not young, when the query is spared
   */
  private async answer(
    { workflowId, runId, taskQueue, historyLength }: WorkflowExecutionDescription,
    query: string,
    { queries, servesMs, mayAskPermit = () => true }: Asking,
    serves: (answer: unknown) => boolean = () => false,
  ): Promise<unknown> {
    const last = this.answers.get(workflowId);
    const isOfRun = last?.runId === runId;
    const isYoung = isOfRun && monotonicMs() - last.atMs < servesMs;
    if (isYoung && (last.historyLength === historyLength || serves(last.answer))) return last.answer;
    if (query === PERMIT_STATUS && !mayAskPermit()) return isOfRun && serves(last.answer) ? last.answer : SPARED;
    const atMs = monotonicMs();
    const answer = await queries.ask(this.reader.getHandle(workflowId, runId), taskQueue, query);
    if (answer === undefined) this.answers.delete(workflowId);
    else if (servesMs > 0) this.answers.set(workflowId, { runId, historyLength, atMs, answer });
    return answer;
  }

  /** The tickets without those whose Workflow has ended, as far as this look asks. */
  private async thoseThere(tickets: readonly Ticket[]): Promise<Ticket[]> {
    const ask = (ticket: Ticket) => this.waiters.ask(ticket, (workflowId) => this.describe(workflowId));
    await mapConcurrently(this.waiters.due(tickets), ask);
    return tickets.filter((ticket) => !this.waiters.of(ticket)?.isGone);
  }

  private canBe(slot: string): boolean {
    return permitAddress(permitId({ resource: this.resource, slot })) !== undefined;
  }

  /** `undefined` when the Workflow has ended, or there is none. */
  private describe(workflowId: string): Promise<WorkflowExecutionDescription | undefined> {
    return describeOpen(this.server, this.reader, workflowId);
  }
}

/** The Workflow, if it has none of the types that belong under its ID. */
function strangerIn({ workflowId, runId, type }: WorkflowExecutionDescription, ours: readonly string[]) {
  return ours.includes(type) ? undefined : ({ workflowId, runId, type } satisfies Stranger);
}

/** The slots that are in use, or will be after a pause, where an operator may have added some. Named slots can't grow. */
function addedSlots({ slots, capacity = 0 }: OverrideState): readonly string[] {
  return typeof slots === 'number' ? slotNames(capacity) : [];
}

/** Waiters with a turn come first; then the other waiters, in the order in which the queue would serve them if no other came. */
function waitersOf(
  { tickets, slots, shares }: QueueView,
  holders: Map<string, Holder | undefined>,
  lookedAt: (ticket: Ticket) => LookedAtWaiter | undefined,
): WaiterInspection[] {
  const turns = new Map<string, string>();
  for (const [slot, state] of slots) if (state.at === 'offered' && !state.reserved) turns.set(state.ticketId, slot);
  // The queue learns only seconds later that a waiter has used its turn. The permit shows it at once.
  const called = tickets.filter((ticket) => {
    const turn = turns.get(ticket.id);
    return turn !== undefined && !isHeldBy(ticket, holders.get(turn));
  });
  const parked = new TurnOrder(shares).sort(tickets.filter(({ id }) => !turns.has(id)));
  return [...called, ...parked].map((ticket, index) => {
    const { id, waiter, identity, pool, priorityKey, fairnessKey, sinceMs } = ticket;
    const turn = turns.get(id);
    const { parent, isPaused = false } = lookedAt(ticket) ?? {};
    return {
      place: index + 1,
      ticketId: id,
      workflowId: waiter.workflowId,
      runId: waiter.runId,
      ...(identity && { identity }),
      ...(pool && { permitPool: pool.id }),
      priorityKey: priorityKey || DEFAULT_PRIORITY_KEY,
      ...(fairnessKey && { fairnessKey }),
      since: new Date(sinceMs),
      ...(turn !== undefined && { turn }),
      ...(parent !== undefined && { parent }),
      ...(isPaused && { paused: true }),
    };
  });
}

/** Whether the waiter holds the slot by now. A client waits through a Workflow, and holds by its identity. */
function isHeldBy({ waiter, identity }: Ticket, holder: Holder | undefined): boolean {
  if (!holder) return false;
  if (holder.workflowId === undefined) return identity !== undefined && holder.identity === identity;
  return holder.workflowId === waiter.workflowId && holder.runId === waiter.runId;
}

/**
 * The slots that holders and waiters take a resource to have, where two of them differ: the most common belief first. An operator's
 * `resize` is no belief: it changes the slots in use, not the slots that callers were deployed with.
 */
export function disagreement(
  slots: readonly SlotInspection[],
  tickets: readonly Ticket[],
): readonly SlotsBelief[] | undefined {
  const beliefs = new Map<SlotsMark, SlotsBelief>();
  const add = (mark: SlotsMark, who: string) => {
    const { count = 0, by = who } = beliefs.get(mark) ?? {};
    beliefs.set(mark, { slots: mark, count: count + 1, by });
  };
  for (const { permit } of slots) {
    if (permit?.slots !== undefined) add(permit.slots, permit.holder.workflowId ?? permit.holder.identity ?? '');
  }
  const marks = new Map<string, SlotsMark>(); // a thousand waiters of one resource name the same slots
  for (const { slots, identity, waiter } of tickets) {
    const names = String(slots);
    const mark = marks.get(names) ?? slotsMark(slots);
    marks.set(names, mark);
    add(mark, identity ?? waiter.workflowId);
  }
  if (beliefs.size < 2) return undefined;
  return [...beliefs.values()].sort((a, b) => b.count - a.count);
}

/** Whether anything is set: a queue also answers the command that ends an override. */
export function isSet({ capacity, capacityUntil, paused }: Override): boolean {
  return paused || capacity !== undefined || capacityUntil !== undefined;
}

/** The override without the fields that only the queue needs. */
export function shown({
  version,
  capacity,
  capacityUntilMs,
  before,
  paused,
  pausedUntilMs,
  reason,
  fileVersion,
}: OverrideState): Override {
  return {
    version,
    ...(capacity !== undefined && { capacity }),
    ...(capacityUntilMs !== undefined && { capacityUntil: new Date(capacityUntilMs) }),
    ...(before && { before }),
    paused,
    ...(pausedUntilMs !== undefined && { pausedUntil: new Date(pausedUntilMs) }),
    ...(reason !== undefined && { reason }),
    ...(fileVersion !== undefined && { fileVersion }),
  };
}
