/**
 * For operators: sees who holds and who waits, revokes permits, and changes at run time how many slots are in use. It takes no permit.
 *
 * @module
 */
import './shared/oldest-sdk';

export { NoAnswerError } from './client/server/errors';
export { ForeignWorkflowError, NotHeldError, StaleOverrideError } from './operator/errors';
export type {
  Inspection,
  Override,
  PastHold,
  PermitInspection,
  ResourceSlot,
  SlotInspection,
  SlotsBelief,
  Stranger,
  WaiterInspection,
} from './operator/inspection';
export {
  type InspectOptions,
  Operator,
  type OperatorOptions,
  type OverrideOptions,
  type PauseOptions,
  type ResizeOptions,
  type RevokeOptions,
} from './operator/operator';
export { type ListHoldersOptions, listHolders } from './operator/visibility';
export { InvalidOptionsError } from './shared/check';
export type { Holder, PermitOutcome } from './shared/protocol';
