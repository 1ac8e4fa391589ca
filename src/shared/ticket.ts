import type { Priority } from '@temporalio/common';
import type { PoolShare } from './pool-protocol';
import type { Ticket } from './protocol';
import type { Slots } from './slots';

/** A ticket before it is known which Workflow waits through it. */
export type TicketDraft = Omit<Ticket, 'waiter'>;

/** How permits that a caller keeps while it waits rank its ticket. */
export type Rank = Pick<Ticket, 'kept' | 'inherits'>;

/** The acquirer's part of a ticket. */
interface TicketParts {
  /** Unique for each acquire. */
  id: string;
  slots: Slots;
  sinceMs: number;
  priority: Priority | undefined;
  /** The Workflow's own priority, for fields that `priority` leaves out. An absent or zero field means "inherit", as in Temporal. */
  ownPriority?: Priority;
  identity?: string;
  pool?: PoolShare;
  maxWaiting?: number;
  preempt?: boolean;
  /** How many permits the acquirer accumulates. */
  permits?: number;
  rank?: Rank;
}

/** Makes a ticket. No other place does. */
export function draftTicket({
  id,
  slots,
  sinceMs,
  priority,
  ownPriority,
  identity,
  pool,
  maxWaiting,
  preempt,
  permits,
  rank,
}: TicketParts): TicketDraft {
  return {
    id,
    slots,
    identity,
    sinceMs,
    priorityKey: priority?.priorityKey || ownPriority?.priorityKey || undefined,
    fairnessKey: priority?.fairnessKey || ownPriority?.fairnessKey || undefined,
    fairnessWeight: priority?.fairnessWeight || ownPriority?.fairnessWeight || undefined,
    pool,
    maxWaiting,
    preempt: preempt || undefined,
    ...(permits !== undefined && permits > 1 ? { permits, kept: rank?.kept } : { permits: undefined, kept: undefined }),
    inherits: rank?.inherits,
  } satisfies Record<Exclude<keyof TicketDraft, 'answer'>, unknown>;
}
