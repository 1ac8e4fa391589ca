/** The part of the wire protocol by which a slot has a pace. Rules as in `protocol`. */

/**
 * The type of a permit with a pace. A type of its own, so that a worker which knows no pace fails its tasks loudly, and does not
 * give the slot again too early.
 */
export const PACED_PERMIT_WORKFLOW = 'pacedPermitWorkflow';

/** What a permit's memo and argument say of its pace. */
export interface PaceMemo {
  /** The slot is not given again before this time has passed since it was taken, whatever becomes of the holder. */
  paceMs?: number;
  /** The permit sets it when its holder has released it, and it stays until then, in epoch milliseconds. */
  pacedUntilMs?: number;
  /** When that was, in epoch milliseconds. */
  releasedAtMs?: number;
}
