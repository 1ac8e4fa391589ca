/** The part of the wire protocol that operators need: what is held, what is set, and how they set it. Rules as in `protocol`. */

/** The query that a permit answers with a {@link PermitStatus}. */
export const PERMIT_STATUS = 'permit';

/**
 * The update by which an operator sets or ends an {@link OverrideState}; the queue is started for it if there is none. A
 * Workflow can't send an update, so it sends a signal of the same name and payload, which has no answer.
 */
export const OVERRIDE = 'override';

/** The type of the failure with which `override` refuses an `ifVersion` that is not the present one. Details: the present state. */
export const STALE_OVERRIDE = 'StaleOverrideError';

/**
 * The purpose of a permit by which the queue keeps a slot out of use, and the signal by which that permit answers a `watch`. A queue
 * that knows nothing of it comes after one that was terminated, and adopts it.
 */
export const DRAINED = 'drained';

/** `drained`, from a permit to its queue. */
export interface DrainedNotice {
  slot: string;
  runId: string;
}

/** A permit's answer to a query: the part that its memo does not have. */
export interface PermitStatus {
  /** When it ends unless it is renewed, in epoch milliseconds. */
  deadlineMs: number;
}

/** `override`, to the queue: what an operator changes. Absent fields stay as they are, except the reason. */
export interface OverrideInput {
  /** The slots that acquirers use without an override: a capacity, or names. */
  slots: number | string[];
  /** How many of them are to be in use; above a `slots` that is a number: how many more the queue is to offer. */
  capacity?: number;
  paused?: boolean;
  /**
   * In the place of `paused` and `capacity`: no slot is in use until then, in epoch milliseconds. A pause that ends later, or has
   * no end, stays as it is.
   */
  pauseUntilMs?: number;
  reason?: string;
  /** Only if the override is of this version now; `0`: only if there is none. */
  ifVersion?: number;
}

/** The present override. The update answers with it, without `capacity` and pause when nothing is set any more. */
export interface OverrideState {
  /** Grows with every change, and from one override to the next: it is at least the time of the change in epoch milliseconds. */
  version: number;
  slots: number | string[];
  /** Absent when as many as `slots` are to be in use. */
  capacity?: number;
  paused: boolean;
  /** When the pause ends by itself, if it does. */
  pausedUntilMs?: number;
  reason?: string;
}
