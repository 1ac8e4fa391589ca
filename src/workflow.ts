/**
 * For Workflow code: take permits here, and export the Workflows from your own Workflows file so that a worker runs them.
 * Kept apart from the other entries because Workflow code is bundled for a sandbox that has neither Node nor a client.
 *
 * @module
 */
export type { Items } from './shared/lanes';
export type { PermitLoss } from './shared/loss';
export type { MapOptions, MapOutcome } from './shared/map-options';
export type { AcquireOptions, SemaphoreOptions } from './shared/options';
export type { PermitsOf, SetEntry } from './shared/permit-set';
export type { OnPreempted, PreemptibleOptions, PreemptionOptions } from './shared/preemption';
export type { PermitOutcome, PermitRef } from './shared/protocol';
export {
  LineFullError,
  PermitLostError,
  PermitPreemptedError,
  PermitTimeoutError,
  SelfDeadlockError,
} from './workflows/errors';
export {
  type MapPart,
  type Mapped,
  mapWithPermits,
  type WorkflowMapOptions,
} from './workflows/holder/map-with-permits';
export { Permit } from './workflows/holder/permit';
export { PermitSet } from './workflows/holder/permit-set';
export { Semaphore, type WithPermitOptions } from './workflows/holder/semaphore';
export { acquireAll, withPermits } from './workflows/holder/with-permits';
export { pacedPermitWorkflow } from './workflows/permit/paced-permit';
export { permitSlotWorkflow } from './workflows/permit/permit-slot';
export { awaitTurnWorkflow } from './workflows/queue/await-turn';
export { waitQueueWorkflow } from './workflows/queue/wait-queue';
