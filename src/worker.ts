/**
 * For worker processes: limits Workflows and activities, and runs the permit Workflows on a dedicated task queue. Kept apart from the other entries because
 * it loads `@temporalio/worker`, which is native code and no business of a Workflow or a client.
 *
 * @module
 */
import './shared/oldest-sdk';

export { InvalidOptionsError } from './shared/check';
export type { DeclaredSemaphore } from './shared/declared-limits';
export { HISTOGRAM_BUCKETS } from './shared/metrics';
export type { ActivityLimit, ActivityLimits } from './worker/limit-activities';
export { createPermitWorker, type PermitWorkerOptions } from './worker/permit-worker';
export { type Limits, SemaphorePlugin, type SemaphorePluginOptions } from './worker/semaphore-plugin';
