import { AsyncLocalStorage } from '@temporalio/workflow';
import type { Permit } from './permit';

const storage = new AsyncLocalStorage<Permit>();

/** Runs `fn` with `permit` as the {@link currentPermit} of everything it calls. */
export function withCurrentPermit<T>(permit: Permit, fn: (permit: Permit) => T): T {
  return storage.run(permit, () => fn(permit));
}

/**
 * The permit of the innermost `withPermit` around the calling code; `undefined` outside of any. Signal, query and update
 * handlers run outside, even while the Workflow holds a permit.
 */
export function currentPermit(): Permit | undefined {
  return storage.getStore();
}
