import type { Holder, PermitOutcome } from '../shared/protocol';

/** One resource, as `Operator.inspect()` finds it. Plain data; in JSON, dates become ISO strings. */
export interface Inspection {
  resource: string;
  /**
   * How many permits there may be: the number that an operator has set, or else the number that the resource is deployed with.
   * Absent while nobody knows the deployed number; `slots` then has those that were seen held.
   */
  capacity?: number;
  /** How many slots are held. */
  held: number;
  /** How many slots a caller can take now. Absent where `capacity` is. */
  free?: number;
  /** How many wait in line, without those whose Workflows have ended. Absent while the queue is `silent` or `paused`. */
  waiting?: number;
  slots: SlotInspection[];
  /** In the order in which the queue would serve them now. */
  waiters: WaiterInspection[];
  /**
   * `silent`: a queue runs, but gives no readable answer, so nobody knows the waiters. `paused`: somebody has paused its Workflow on the
   * server, so it answers nobody. An operator's pause of the resource is an {@link Override}.
   */
  queue: 'none' | 'running' | 'silent' | 'paused';
  /** The task queue on which that queue runs; absent where none runs. */
  taskQueue?: string;
  /** What an operator has set; absent while the resource runs as deployed. */
  override?: Override;
  /**
   * The slots that callers take the resource to have; present only where two callers differ. Then the larger number holds: agree on
   * one number. While a rollout lasts, there are two for a while.
   */
  disagreement?: readonly SlotsBelief[];
  /** Workflows of another type under the ID of a permit or of the queue. Each keeps its slot, or the line, until somebody ends it. */
  strangers?: readonly Stranger[];
  /** The last holds that have ended, newest first. They come from visibility, which is seconds late. */
  recent: PastHold[];
}

/** A Workflow of another type under an ID of this library. */
export interface Stranger {
  workflowId: string;
  runId: string;
  /** Its Workflow type. */
  type: string;
}

/** What some callers take to be the slots of a resource. */
export interface SlotsBelief {
  /** The capacity; or, of named slots, their number and a hash of their names. */
  slots: number | string;
  /** How many holders and waiters believe so. */
  count: number;
  /** One of these holders or waiters: a Workflow ID, or a client's identity. */
  by: string;
}

/**
 * `drained`: an {@link Override} has taken the slot out of use. The queue itself holds it, unless an operator had added the slot. `paced`: the holder has released the
 * slot, and its pace is not over (`permit.pacedUntil`).
 */
export interface SlotInspection {
  slot: string;
  state: 'free' | 'held' | 'drained' | 'paced';
  /** Absent when the slot is free. */
  permit?: PermitInspection;
}

/** A held slot of any resource. */
export interface ResourceSlot extends SlotInspection {
  resource: string;
  permit: PermitInspection;
}

export interface PermitInspection {
  workflowId: string;
  /** The run ID orders the permits of one slot, and is the last part of the fencing token. */
  runId: string;
  /** The task queue on which the permit runs. Only a worker there can renew or release it. */
  taskQueue: string;
  /** Empty when the permit does not name its holder, or the name can't be read here. */
  holder: Holder;
  purpose?: string;
  /**
   * The ID of the permit pool that holds the permit, and hands it from caller to caller in its process. The server does not know
   * how many callers wait in that process.
   */
  permitPool?: string;
  /** The slots that its holder takes the resource to have, as in {@link SlotsBelief}; absent where the holder does not say. */
  slots?: number | string;
  since: Date;
  /** When its slot is free again, if the holder has released the permit and the pace keeps the slot. */
  pacedUntil?: Date;
  /** Somebody has paused the permit's Workflow on the server. The permit keeps its slot, and ends by no lease, until it is unpaused. */
  paused?: true;
  /** A waiter of higher priority has asked for the permit. Its holder gives way, and the permit ends at this time at the latest. */
  preemptedUntil?: Date;
  /** When the permit ends unless its holder renews it; absent when the permit is paused, or no worker answers for it. */
  leaseDeadline?: Date;
  /** @internal Whoever looks has spared the query that would tell the lease. */
  leaseSpared?: true;
}

export interface WaiterInspection {
  /** 1 is next. */
  place: number;
  ticketId: string;
  /** The waiting Workflow; `permit-waiter:…` when it waits for a client. */
  workflowId: string;
  runId: string;
  /** The client's identity, if the Workflow waits for a client. */
  identity?: string;
  /** As in {@link PermitInspection}. */
  permitPool?: string;
  priorityKey: number;
  fairnessKey?: string;
  since: Date;
  /** The slot of the waiter's turn, if the waiter has a turn. */
  turn?: string;
  /** The ID of the Workflow that has started the waiter as its child. Known once the waiter has waited for 30 seconds. */
  parent?: string;
  /** Somebody has paused the waiter's Workflow on the server: its turns pass to the next. Known as {@link parent} is. */
  paused?: true;
}

export interface PastHold {
  slot: string;
  runId: string;
  holder: Holder;
  purpose?: string;
  /** As in {@link PermitInspection}. */
  permitPool?: string;
  from: Date;
  /** When the holder released the permit, where its pace kept the slot for longer; else when the permit ended. */
  to: Date;
  /**
   * `terminated`, `timed-out` and `failed`: the permit did not end by itself. `unknown`: its result can't be read here.
   */
  outcome: PermitOutcome | 'terminated' | 'timed-out' | 'failed' | 'unknown';
}

/** What operators have set at run time. The wait queue keeps it. */
export interface Override {
  /** Grows with every change. */
  version: number;
  capacity?: number;
  /** When `resize` has given the capacity an end: then, what is `before` is set again, or nothing. */
  capacityUntil?: Date;
  /** What was set before a capacity with an end. */
  before?: { capacity?: number; reason?: string; fileVersion?: number };
  paused: boolean;
  /** When the pause ends by itself; absent when it does not. */
  pausedUntil?: Date;
  reason?: string;
  /**
   * The version of the limits file that has set it. Absent if an operator has set it by hand. One
   * alone, with nothing else set: such a file has ended what another one had set.
   */
  fileVersion?: number;
}
