/**
 * For everything outside Workflows: takes permits of the same semaphores, in the same queue. Kept apart from the other entries
 * because it loads `@temporalio/client`, which has no place in Workflow code.
 *
 * @module
 */
import './shared/oldest-sdk';

export type {
  ClientAcquireOptions,
  ClientSetOptions,
  ClientWithPermitOptions,
  SemaphoreClientOptions,
} from './client/holder/options';
export type { Permit } from './client/holder/permit';
export { PermitSet } from './client/holder/permit-set';
export { PermitPool } from './client/pool/permit-pool';
export type { PermitPoolOptions, PoolAcquireOptions } from './client/pool/pool-options';
export type { PooledPermit } from './client/pool/pooled-permit';
export { acquireAll, SemaphoreClient, withPermits } from './client/semaphore-client';
export {
  LineFullError,
  NoAnswerError,
  PermitLostError,
  PermitTimeoutError,
  PoolClosedError,
  SelfDeadlockError,
  SemaphoreClosedError,
} from './client/server/errors';
export { InvalidOptionsError } from './shared/check';
export type { DeclaredSemaphore } from './shared/declared-limits';
export type { PermitLoss } from './shared/loss';
export type {
  AcquireOptions,
  FormerOptions,
  Pace,
  PerKey,
  PreemptibleOptions,
  SemaphoreOptions,
} from './shared/options';
export type { PermitsOf, SetEntry } from './shared/permit-set';
export type { Holder, PermitOutcome, PermitRef } from './shared/protocol';
