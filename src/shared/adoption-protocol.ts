import type { Holder, PermitOutcome } from './protocol';

/** The part of the wire protocol by which a permit changes hands. Rules as in `protocol`. */

/** A signal that a permit takes. */
export const ADOPT = 'adopt';

/** A signal to the adopter's own Workflow. */
export const ENDED = 'permit-ended';

/**
 * `adopt`, to a permit, pinned to its run: somebody else holds it from now on. It renews, changes the holder in the memo,
 * and makes the new holder, if it is a Workflow, the one to be told of the end, by `permit-ended`. (Its first holder is its
 * parent, and needs no word of that.)
 */
export interface AdoptInput {
  holder: Holder;
}

/** `permit-ended`, from a permit to the Workflow that adopted it: the permit is about to end. */
export interface EndedNotice {
  workflowId: string;
  runId: string;
  outcome: PermitOutcome;
  /** Why it was revoked. */
  reason?: string;
}
