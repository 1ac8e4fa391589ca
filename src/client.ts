/**
 * For everything outside Workflows: takes permits of the same pools, in the same queue. Kept apart from the other entries
 * because it loads `@temporalio/client`, which has no place in Workflow code.
 *
 * @module
 */
export {
  LineFullError,
  NoAnswerError,
  NotHeldError,
  PermitLostError,
  PermitPreemptedError,
  PermitTimeoutError,
  PoolClosedError,
  SelfDeadlockError,
  StaleOverrideError,
} from './client/errors';
export type { Permit } from './client/holder/permit';
export { PermitSet } from './client/holder/permit-set';
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
} from './client/operator/inspection';
export type { InspectOptions, OverrideOptions, PauseOptions, RevokeOptions } from './client/operator/operator';
export { listHolders } from './client/operator/visibility';
export type { ClientAcquireOptions, ClientWithPermitOptions, SemaphoreClientOptions } from './client/options';
export { type ClientMapOptions, mapWithPermits } from './client/pool/map-with-permits';
export { PermitPool } from './client/pool/permit-pool';
export type { PermitPoolOptions, PoolAcquireOptions } from './client/pool/pool-options';
export type { PooledPermit } from './client/pool/pooled-permit';
export { SemaphoreClient } from './client/semaphore-client';
export { acquireAll, withPermits } from './client/with-permits';
export { InvalidOptionsError } from './shared/invalid-options';
export type { Items } from './shared/lanes';
export type { PermitLoss } from './shared/loss';
export type { MapOptions, MapOutcome } from './shared/map-options';
export type { AcquireOptions, SemaphoreOptions } from './shared/options';
export type { PermitsOf, SetEntry } from './shared/permit-set';
export type { OnPreempted, PreemptibleOptions, PreemptionOptions } from './shared/preemption';
export type { Holder, PermitOutcome, PermitRef } from './shared/protocol';
