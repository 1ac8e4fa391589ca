import type { PermitAddress } from './permit-id';
import type { PermitOutcome } from './protocol';

/**
 * How a permit was lost, in `PermitLostError.how`.
 *
 * - `released`: the permit was released or cancelled already, or its client was closed.
 * - `lease-expired`: the lease ended before it was renewed: the holder was stopped, or could not reach the server.
 * - `revoked`: an operator took the permit away; `PermitLostError.reason` is the operator's text.
 * - `preempted`: a waiter of higher priority asked for the permit.
 * - `terminated`: the permit's Workflow was terminated.
 * - `timed-out`: the permit was held for longer than `maxHold`.
 * - `failed`: the permit's Workflow failed.
 * - `not-found`: the server has no such run: it never existed, or was deleted after its retention.
 * - `unknown`: the permit no longer runs, and how it ended is unknown. A Workflow that adopts gets `unknown` even for a run that never
 *   existed, because a Workflow can't tell which.
 */
export type PermitLoss = PermitOutcome | 'terminated' | 'timed-out' | 'failed' | 'not-found' | 'unknown';

/** Whether a permit ended only because its time was up. Its holder can then tell from its own clock whether its work was done before. */
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

/** How a permit ended, according to a message; `unknown` if the message says nothing that we know. */
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
