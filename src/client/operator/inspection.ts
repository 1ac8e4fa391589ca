import type { Holder, PermitOutcome } from '../../shared/protocol';

/** One resource, as `SemaphoreClient.inspect()` finds it. Plain data: as JSON, its dates are ISO strings. */
export interface Inspection {
  resource: string;
  /** How many permits there may be: what the operator has set, or else what this client was made with. */
  capacity: number;
  slots: SlotInspection[];
  /** In the order in which they are served as things stand. */
  waiters: WaiterInspection[];
  /** `silent`: a queue runs, but nobody answers for it in a way that can be read, so nobody knows the waiters. */
  queue: 'none' | 'running' | 'silent';
  /** What an operator has set; absent when the pool runs as it was deployed. */
  override?: Override;
  /** The last holds that have ended, newest first: from visibility, so seconds late. */
  recent: PastHold[];
}

/** `drained`: taken out of use by {@link Override}; the queue itself holds it. */
export interface SlotInspection {
  slot: string;
  state: 'free' | 'held' | 'drained';
  /** Absent when free. */
  permit?: PermitInspection;
}

/** A slot that is held, of any resource. */
export interface ResourceSlot extends SlotInspection {
  resource: string;
  permit: PermitInspection;
}

export interface PermitInspection {
  workflowId: string;
  /** What orders the permits of one slot: the last part of the fencing token. */
  runId: string;
  /** Empty when the permit does not say, or not in a way that can be read here. */
  holder: Holder;
  purpose?: string;
  since: Date;
  /** When it ends unless it is renewed; absent when no worker answers for the permit. */
  leaseDeadline?: Date;
}

export interface WaiterInspection {
  /** 1 is served next. */
  place: number;
  ticketId: string;
  /** The Workflow that waits; `permit-waiter:…` for somebody outside Workflows. */
  workflowId: string;
  runId: string;
  /** The client's identity, if the Workflow waits for a client. */
  identity?: string;
  priorityKey: number;
  fairnessKey?: string;
  since: Date;
  /** The slot that it has been told to try. */
  turn?: string;
}

export interface PastHold {
  slot: string;
  runId: string;
  holder: Holder;
  purpose?: string;
  from: Date;
  to: Date;
  /**
   * `terminated`, `timed-out` and `failed` for a permit that could not end by itself; `unknown` when its result can't be
   * read here.
   */
  outcome: PermitOutcome | 'terminated' | 'timed-out' | 'failed' | 'unknown';
}

/** What an operator has set at run time, kept by the wait queue. */
export interface Override {
  /** Grows with every change. */
  version: number;
  capacity?: number;
  paused: boolean;
  reason?: string;
}
