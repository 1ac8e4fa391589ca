/**
 * For everything outside Workflows: takes permits of the same pools, in the same queue. Kept apart from the other entries
 * because it loads `@temporalio/client`, which has no place in Workflow code.
 *
 * @module
 */
export { PermitLostError, PermitTimeoutError } from './client/errors';
export type { ClientAcquireOptions, SemaphoreClientOptions } from './client/options';
export type { Permit } from './client/permit';
export { SemaphoreClient } from './client/semaphore-client';
export type { PermitLoss } from './shared/loss';
export type { PermitRef } from './shared/protocol';
export { InvalidOptionsError } from './shared/refuse';
