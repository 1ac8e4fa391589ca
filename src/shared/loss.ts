import type { PermitAddress } from './permit-id';
import type { PermitOutcome } from './protocol';

/**
 * How a permit can end without its holder's release. `not-found`: the server has no such run. `unknown`: nothing says how; a
 * Workflow that adopts can't tell either from a run that never was.
 */
export type PermitLoss = PermitOutcome | 'terminated' | 'timed-out' | 'failed' | 'not-found' | 'unknown';

/** Whether a permit ended by time alone. By its own clock, its holder can tell that its work was done before. */
export function isEndByTime(how: PermitLoss): boolean {
  return how === 'lease-expired' || how === 'timed-out';
}

const LOSS_TOLD: Record<PermitLoss, string> = {
  released: 'it was released or cancelled',
  'lease-expired': 'its lease ended before it was renewed',
  revoked: 'an operator revoked it',
  preempted: 'a waiter of higher priority has asked for it',
  terminated: 'its Workflow was terminated',
  'timed-out': 'it was held for longer than maxHold',
  failed: 'its Workflow failed',
  'not-found': 'the server has no such run: it never existed, or was deleted',
  unknown: 'it no longer runs, or never did, and how it ended is unknown',
};

/** How a permit ended, as a message says it; `unknown` where it says nothing that we know. */
export function readLoss(value: unknown): PermitLoss {
  return typeof value === 'string' && Object.hasOwn(LOSS_TOLD, value) ? (value as PermitLoss) : 'unknown';
}

/** The message of a `PermitLostError`, in Workflows and outside. */
export function lossMessage(
  { resource, slot }: PermitAddress,
  runId: string,
  how: PermitLoss,
  reason?: string,
): string {
  return `The permit of "${resource}", slot "${slot}", run ${runId} was lost: ${LOSS_TOLD[how]}${reason ? ` (${reason})` : ''}.`;
}
