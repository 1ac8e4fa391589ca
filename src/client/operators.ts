/**
 * The door for operators: beside the client's public entry, the command line and the dashboard may use this and nothing else
 * of the client. The linter holds that.
 */
export { refuse } from '../shared/invalid-options';
export { keyResource } from '../shared/key-pool';
export { MAX_REASON_LENGTH } from '../shared/limits';
export { queueId } from '../shared/permit-id';
export { waitsForItself } from '../shared/self-deadlock';
export { monotonicMs, pause } from './clock';
export { messageOf } from './errors';
export { type DeadlockStep, findDeadlocks } from './operator/deadlocks';
export { shownPurpose } from './operator/permit-memo';
export { checkPool, openSlot, PoolByName, type PoolOptions, type SeenPool } from './operator/pool-by-name';
export { poolsInUse, resourcesInUse } from './operator/pools-in-use';
export { type StuckWorkflows, stuckWorkflows } from './operator/stuck-workflows';
export { countPollers } from './pollers';
export { isTransient } from './server';
