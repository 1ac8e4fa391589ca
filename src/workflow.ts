/**
 * For Workflow code: take permits here. Kept apart from the other entries because Workflow code is bundled for a sandbox that has
 * neither Node nor a client. The Workflows that a worker must have stand in `temporal-semaphore/workflows`.
 *
 * @module
 */
import './shared/oldest-sdk';

export type { DeclaredSemaphore } from './shared/declared-limits';
export type { PermitLoss } from './shared/loss';
export type {
  AcquireOptions,
  FormerOptions,
  Pace,
  PerKey,
  PreemptibleOptions,
  SemaphoreOptions,
  SetOptions,
} from './shared/options';
export type { PermitsOf, SetEntry } from './shared/permit-set';
export type { PermitOutcome, PermitRef } from './shared/protocol';
export { LineFullError, PermitLostError, PermitTimeoutError, SelfDeadlockError } from './workflows/errors';
export {
  type LimitInterceptors,
  limitWorkflows,
  type WorkflowLimit,
  type WorkflowLimits,
} from './workflows/holder/limit-workflows';
export { Permit } from './workflows/holder/permit';
export { PermitSet } from './workflows/holder/permit-set';
export { acquireAll, Semaphore, type WithPermitOptions, withPermits } from './workflows/holder/semaphore';
