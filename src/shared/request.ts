import type { Priority } from '@temporalio/common';
import type { ResolvedAcquire, ResolvedSemaphore } from './options';
import { paceMsOf } from './pace';
import { permitId } from './permit-id';
import type { PermitMemo, PermitRef, PoolShare, Ticket } from './protocol';

/** A ticket before it is known which acquire it is of, and which Workflow waits through it. */
export type TicketDraft = Omit<Ticket, 'id' | 'waiter' | 'answer'>;

/** A permit's memo before it is known who claims it. */
export type MemoDraft = Omit<PermitMemo, 'holder' | 'claimId'>;

/**
 * One acquire of one permit, checked. It is made where options are checked, and passed on whole: `ticket` goes to the queue unchanged,
 * `memo` to the permit.
 */
export interface Request {
  readonly semaphore: ResolvedSemaphore;
  readonly timeoutMs: number;
  readonly key: string | undefined;
  readonly ticket: TicketDraft;
  readonly memo: MemoDraft;
  /** Whether the permit outlives the Workflow run of its holder. */
  readonly outlivesRun: boolean;
  /** Whether its holder gives way at its checkpoints only. */
  readonly atCheckpoints: boolean;
}

/** Who asks, and since when. */
export interface Caller {
  /** When it began to wait, for this permit or for those before it, in epoch milliseconds: its place in the queue. */
  readonly sinceMs: number;
  /** The caller's namespace: in some, the server needs a pace. */
  readonly namespace: string;
  /** A client's identity. */
  readonly identity?: string;
  /** The Workflow's own priority, for fields that the options leave out. An absent or zero field means "inherit", as in Temporal. */
  readonly priority?: Priority;
  /** The permit pool that asks. */
  readonly pool?: PoolShare;
}

/** What a ticket for a permit of a set adds: how many permits of the resource its caller accumulates, and how the permits that it keeps rank it. */
export type PartOfSet = Pick<Ticket, 'permits' | 'kept' | 'inherits' | 'givesWay'>;

/** Makes a request. Tickets, and the memos and arguments of permits, are made here and nowhere else. */
export function requestOf(
  semaphore: ResolvedSemaphore,
  { timeoutMs, maxWaiting, whenFull, key, purpose, priority, preempt, preemptible, outlivesRun }: ResolvedAcquire,
  caller: Caller,
  { permits, kept, inherits, givesWay }: PartOfSet = {},
): Request {
  const { leaseMs, mark, compactSlots: slots } = semaphore;
  const { sinceMs, namespace, identity, pool } = caller;
  const ticket: TicketDraft = {
    slots,
    sinceMs,
    identity,
    priorityKey: priority?.priorityKey || caller.priority?.priorityKey || undefined,
    fairnessKey: priority?.fairnessKey || caller.priority?.fairnessKey || undefined,
    fairnessWeight: priority?.fairnessWeight || caller.priority?.fairnessWeight || undefined,
    pool,
    maxWaiting,
    whenFull,
    preempt: preempt || undefined,
    permits,
    kept: permits && kept,
    inherits,
    givesWay,
  };
  const paceMs = paceMsOf(semaphore, namespace, preemptible !== undefined);
  const memo: MemoDraft = { leaseMs, slots: mark };
  if (purpose !== undefined) memo.purpose = purpose;
  if (pool) memo.pool = pool.id;
  if (paceMs !== undefined) memo.paceMs = paceMs;
  if (preemptible) memo.preemptible = { graceMs: preemptible.graceMs, priorityKey: preemptible.priorityKey };
  return { semaphore, timeoutMs, key, ticket, memo, outlivesRun, atCheckpoints: preemptible?.atCheckpoints ?? false };
}

/**
 * The request of a caller that has given a permit up and wants another. It asks for its old place in strict order, because the slot that it
 * gave up is for the waiters before it. It waits even if it did not wait at first, and however long the queue is.
 */
export function again<R extends Request>(request: R): R {
  return {
    ...request,
    semaphore: { ...request.semaphore, fair: true },
    timeoutMs: request.timeoutMs || Number.POSITIVE_INFINITY,
    ticket: { ...request.ticket, maxWaiting: undefined, whenFull: undefined },
  };
}

/** Names the waiter: one run of a Workflow, whatever it waits for. */
export function waiterKey({ waiter }: Pick<Ticket, 'waiter'>): string {
  return `${waiter.runId} ${waiter.workflowId}`;
}

/** The reference of a permit that a request has become. */
export function refOf({ semaphore: { resource, leaseMs }, memo }: Request, slot: string, runId: string): PermitRef {
  const ref: PermitRef = { resource, slot, workflowId: permitId({ resource, slot }), runId, leaseMs };
  if (memo.paceMs !== undefined) ref.paceMs = memo.paceMs;
  if (memo.preemptible) ref.preemptible = true;
  return ref;
}

/**
 * Temporal's priority of permits, queues and waiters, for a server or worker with a backlog of tasks. Without it, a child
 * inherits its parent's priority: a queue that the least urgent waiter has started would serve all waiters late. These tasks are
 * short, and others wait for them.
 */
export const WORKFLOW_PRIORITY = { priorityKey: 1, fairnessKey: 'permits', fairnessWeight: 1 };

/** The server takes 400 bytes of summary; this many characters fit in any script. */
const MAX_SUMMARY_LENGTH = 90;

/** A permit's line in the Web UI. */
export function permitSummary(holder: string, purpose: string | undefined): string {
  const text = purpose ? `${purpose} (${holder})` : `held by ${holder}`;
  return text.length > MAX_SUMMARY_LENGTH ? `${text.slice(0, MAX_SUMMARY_LENGTH - 1)}…` : text;
}
