import type { Holder, PermitOutcome } from '../../shared/protocol';

/** One resource, as `SemaphoreClient.inspect()` finds it. Plain data; in JSON, dates become ISO strings. */
export interface Inspection {
  resource: string;
  /** How many permits there may be: the operator's number, or else the one that this client was made with. */
  capacity: number;
  slots: SlotInspection[];
  /** In the order in which the queue would serve them now. */
  waiters: WaiterInspection[];
  /** `silent`: a queue runs, but gives no readable answer, so nobody knows the waiters. */
  queue: 'none' | 'running' | 'silent';
  /** The operator's override; absent when the pool runs as deployed. */
  override?: Override;
  /**
   * The slots that acquirers take the resource to have; present only where two of them differ. Then the larger number holds: agree
   * on one. While a rollout lasts, there are two for a while.
   */
  disagreement?: readonly SlotsBelief[];
  /** Workflows of another type under the ID of a permit or of the queue: each keeps its slot, or the line, until somebody ends it. */
  strangers?: readonly Stranger[];
  /** The last holds that have ended, newest first. They come from visibility, which is seconds late. */
  recent: PastHold[];
}

/** A Workflow that is none of ours under an ID of ours. */
export interface Stranger {
  workflowId: string;
  runId: string;
  /** Its Workflow type. */
  type: string;
}

/** Some acquirers take these to be the slots of a resource. */
export interface SlotsBelief {
  /** The capacity; or, of named slots, their number and a hash of their names. */
  slots: number | string;
  /** How many holders and waiters believe so. */
  count: number;
  /** One of them: a Workflow ID, or a client's identity. */
  by: string;
}

/**
 * `drained`: an {@link Override} has taken it out of use, and the queue itself holds it. `paced`: its holder has released it, and
 * its pace is not over (`permit.pacedUntil`).
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
  /** It orders the permits of one slot, and is the last part of the fencing token. */
  runId: string;
  /** Empty when the permit does not name its holder, or the name can't be read here. */
  holder: Holder;
  purpose?: string;
  /**
   * The ID of the permit pool that holds it, and hands it from caller to caller in its process. The server does not know how
   * many callers wait there.
   */
  pool?: string;
  /** The slots that its claimer takes the resource to have, as in {@link SlotsBelief}; absent where it does not say. */
  slots?: number | string;
  since: Date;
  /** When its slot is free again, if the holder has released it and its pace keeps it. */
  pacedUntil?: Date;
  /** A waiter of higher priority has asked for it: its holder gives way, and the permit ends then at the latest. */
  preemptedUntil?: Date;
  /** When the permit ends unless it is renewed; absent when no worker answers for it. */
  leaseDeadline?: Date;
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
  priorityKey: number;
  fairnessKey?: string;
  since: Date;
  /** The slot of its turn, if it has one. */
  turn?: string;
}

export interface PastHold {
  slot: string;
  runId: string;
  holder: Holder;
  purpose?: string;
  /** As in {@link PermitInspection}. */
  pool?: string;
  from: Date;
  /** When it was released, where its pace kept the slot for longer; else when the permit ended. */
  to: Date;
  /**
   * `terminated`, `timed-out` and `failed`: the permit did not end by itself. `unknown`: its result can't be read here.
   */
  outcome: PermitOutcome | 'terminated' | 'timed-out' | 'failed' | 'unknown';
}

/** A change that an operator has made at run time. The wait queue keeps it. */
export interface Override {
  /** Grows with every change. */
  version: number;
  capacity?: number;
  paused: boolean;
  /** When the pause ends by itself; absent when it does not. */
  pausedUntil?: Date;
  reason?: string;
}
