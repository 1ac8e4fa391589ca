/**
 * The wire protocol, version 1: every name and payload that crosses between Workflows, clients and other languages
 * stands here and nowhere else. Payloads are JSON objects to which optional fields are only ever added; durations are
 * integer milliseconds in names that end in `Ms`.
 */

/** Workflow types. */
export const PERMIT_WORKFLOW = 'permitSlotWorkflow';

/** Signals that a permit takes. */
export const RENEW = 'renew';
export const RELEASE = 'release';
export const REVOKE = 'revoke';

/** Signals that go to a user's own Workflow, and so carry a prefix. */
export const REVOKED = 'permit-revoked';

/** Who holds a permit: a Workflow, or somebody outside who is known by an identity. */
export interface Holder {
  /** The holding Workflow; absent for a holder outside Workflows. */
  workflowId?: string;
  runId?: string;
  workflowType?: string;
  /** A holder outside Workflows: its client's identity, by default `pid@host`. */
  identity?: string;
}

/** What a permit is started with, and also its memo, so that anyone can read who holds the slot and what for. */
export interface PermitInput {
  leaseMs: number;
  holder: Holder;
  purpose?: string;
}

/** How a permit ended: its Workflow's result. */
export type PermitOutcome = 'released' | 'lease-expired' | 'revoked';

/** `revoke`, to a permit: an operator takes it away. */
export interface RevokeInput {
  reason?: string;
}

/** `permit-revoked`, from a permit to the Workflow that holds it. Its result, `"revoked"`, has no room for a reason. */
export interface RevokedNotice {
  workflowId: string;
  runId: string;
  reason?: string;
}
