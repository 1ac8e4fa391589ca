import type { Holder, PermitOutcome } from '../shared/protocol';

/** One resource, as `Operator.inspect()` finds it. Plain data; in JSON, dates become ISO strings. */
export interface Inspection {
  /** The name of the shared thing; with a `key`, the resource of that key. */
  resource: string;
  /**
   * How many permits there may be: the number that an operator has set, or else the number that the resource is deployed with.
   * Absent while the deployed number is unknown; `slots` then contains those that were seen held.
   */
  capacity?: number;
  /** How many slots are held. */
  held: number;
  /** How many slots a caller can take now. Absent if `capacity` is. */
  free?: number;
  /** How many wait in the queue, without those whose Workflows have ended. Absent while the queue is `silent` or `paused`. */
  waiting?: number;
  /** The slots, each with the permit that holds it. */
  slots: SlotInspection[];
  /** In the order in which the queue would serve them now. */
  waiters: WaiterInspection[];
  /**
   * `silent`: a queue runs, but gives no readable answer, so the waiters are unknown. `paused`: its Workflow was paused on the
   * server, so it does not answer. An operator's pause of the resource is an {@link Override}.
   */
  queue: 'none' | 'running' | 'silent' | 'paused';
  /** The task queue on which that queue runs; absent if none runs. */
  taskQueue?: string;
  /** What an operator has set; absent while the resource runs as deployed. */
  override?: Override;
  /**
   * The slots that callers take the resource to have; present only if two callers differ. Then the larger number holds: give all callers
   * the same number. During a rollout, both are in use for a while.
   */
  disagreement?: readonly SlotsBelief[];
  /** Workflows of another type under the ID of a permit or of the queue. Each keeps its slot, or the queue, until an operator terminates it. */
  strangers?: readonly Stranger[];
  /** The last holds that have ended, newest first. They come from visibility, which is seconds late. */
  recent: PastHold[];
}

/** A Workflow of another type under an ID of this library. */
export interface Stranger {
  /** The ID, which belongs to a permit or a queue. */
  workflowId: string;
  /** Its run, to terminate it. */
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
 * `drained`: an {@link Override} has taken the slot out of use. The queue itself holds the slot, unless an operator had added it.
 * `paced`: the holder has released the slot, and its pace is not over (`permit.pacedUntil`).
 */
export interface SlotInspection {
  /** The slot's number as text, or its name. */
  slot: string;
  /** What the slot is used for now: see above. */
  state: 'free' | 'held' | 'drained' | 'paced';
  /** Absent when the slot is free. */
  permit?: PermitInspection;
}

/** A held slot of any resource. */
export interface ResourceSlot extends SlotInspection {
  /** The resource to which the slot belongs. */
  resource: string;
  /** The permit that holds the slot. */
  permit: PermitInspection;
}

/** The permit that holds a slot, as the server shows it. */
export interface PermitInspection {
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  workflowId: string;
  /** The run ID orders the permits of one slot, and is the last part of the fencing token. */
  runId: string;
  /** The task queue on which the permit runs. Only a worker there can renew or release it. */
  taskQueue: string;
  /** Empty when the permit does not name its holder, or the name can't be read here. */
  holder: Holder;
  /** What the holder gave as `purpose`. */
  purpose?: string;
  /**
   * The ID of the permit pool that holds the permit, and hands it from caller to caller in its process. The server does not know
   * how many callers wait in that process.
   */
  permitPool?: string;
  /** The slots that its holder takes the resource to have, as in {@link SlotsBelief}; absent if the holder does not say. */
  slots?: number | string;
  /** When the permit began. */
  since: Date;
  /** When its slot is free again, if the holder has released the permit and the pace keeps the slot. */
  pacedUntil?: Date;
  /** The permit's Workflow was paused on the server. The permit keeps its slot, and ends by no lease, until it is unpaused. */
  paused?: true;
  /** A waiter of higher priority has asked for the permit. Its holder gives way, and the permit ends at this time at the latest. */
  preemptedUntil?: Date;
  /** When the permit ends unless its holder renews it; absent when the permit is paused, or no worker answers for it. */
  leaseDeadline?: Date;
  /**
   * When its holder last renewed the permit, or took it, as `leaseDeadline` and the lease of its memo tell. Absent when `leaseDeadline` is,
   * and when a renewal with another lease, a pace or a pre-emption has set that.
   */
  renewedAt?: Date;
  /** @internal Whether the look has spared the query that would show the lease. */
  leaseSpared?: true;
}

/** A caller that waits in the queue. */
export interface WaiterInspection {
  /** 1 is next. */
  place: number;
  /** The ID of its place in the queue. */
  ticketId: string;
  /** The waiting Workflow; `permit-waiter:…` when it waits for a client. */
  workflowId: string;
  /** The run of that Workflow. */
  runId: string;
  /** The client's identity, if the Workflow waits for a client. */
  identity?: string;
  /** As in {@link PermitInspection}. */
  permitPool?: string;
  /** Its rank: 1 is served first. */
  priorityKey: number;
  /** The key by which waiters of one rank get fair shares. */
  fairnessKey?: string;
  /** When its acquire began. */
  since: Date;
  /** The slot of the waiter's turn, if the waiter has a turn. */
  turn?: string;
  /** The ID of the Workflow that has started the waiter as its child. Known once the waiter has waited for 30 seconds. */
  parent?: string;
  /** The waiter's Workflow was paused on the server: its turns pass to the next waiter. Known as {@link parent} is. */
  paused?: true;
}

/** A hold that has ended. */
export interface PastHold {
  /** The slot that was held. */
  slot: string;
  /** The permit's run. */
  runId: string;
  /** Empty when the permit does not name its holder, or the name can't be read here. */
  holder: Holder;
  /** What the holder gave as `purpose`. */
  purpose?: string;
  /** As in {@link PermitInspection}. */
  permitPool?: string;
  /** When the permit began. */
  from: Date;
  /** When the holder released the permit, if its pace kept the slot for longer; otherwise when the permit ended. */
  to: Date;
  /**
   * How it ended: see {@link PermitOutcome}. `terminated`, `timed-out` (`maxHold`) and `failed`: the permit did not end by itself.
   * `unknown`: its result can't be read here.
   */
  outcome: PermitOutcome | 'terminated' | 'timed-out' | 'failed' | 'unknown';
}

/** What operators have set at run time. The wait queue keeps it. */
export interface Override {
  /** Grows with every change. */
  version: number;
  /** How many slots are in use; absent if `resize` has set none. */
  capacity?: number;
  /** When the capacity ends by itself, if `resize` gave it an end: `before` applies again then, or the deployed capacity. */
  capacityUntil?: Date;
  /** What was set before a capacity with an end, with its reason and limits file. */
  before?: { capacity?: number; reason?: string; fileVersion?: number };
  /** Whether the resource gives no permits now. */
  paused: boolean;
  /** When the pause ends by itself; absent if it does not. */
  pausedUntil?: Date;
  /** The operator's text. */
  reason?: string;
  /**
   * The version of the limits file that has set it. Absent if an operator has set it by hand. If nothing else is set, a limits file has
   * ended what another file had set.
   */
  fileVersion?: number;
}
