import { AsyncLocalStorage } from '@temporalio/workflow';
import type { ResolvedAcquire, ResolvedSemaphore } from '../../shared/options';
import { waitsForItself } from '../../shared/self-deadlock';
import { SelfDeadlockError } from '../errors';
import type { Permit } from './permit';

interface Here {
  /** The permit of the innermost function under one permit. */
  current?: Permit;
  /** All permits under which the code runs. */
  held: readonly Permit[];
}

const storage = new AsyncLocalStorage<Here>();

/** Runs `fn` with `permit` as the {@link currentPermit} of everything it calls. */
export function withCurrentPermit<T>(permit: Permit, fn: (permit: Permit) => T): T {
  return storage.run({ held: storage.getStore()?.held ?? [], current: permit }, () => fn(permit));
}

/** Runs `fn` as the holder of these permits too, beside those around it that are not over. */
export function holding<T>(permits: readonly Permit[], fn: () => T): T {
  const { current, held = [] } = storage.getStore() ?? {};
  return storage.run({ current, held: [...held.filter(({ isOver }) => !isOver), ...permits] }, fn);
}

/**
 * The permit of the innermost `withPermit` around the calling code; `undefined` outside of any. Signal, query and update
 * handlers run outside, even while the Workflow holds a permit.
 */
export function currentPermit(): Permit | undefined {
  return storage.getStore()?.current?.latest;
}

/**
 * @param parts one for each permit that the calling code asks for
 * @throws SelfDeadlockError when it would wait for a permit that only itself can give back
 */
export function checkSelfDeadlock(parts: readonly { pool: ResolvedSemaphore }[], request: ResolvedAcquire): void {
  const held = (storage.getStore()?.held ?? []).filter(({ latest }) => latest.isHeld).map(({ resource }) => resource);
  for (const { pool } of parts) {
    const { resource, slots } = pool;
    const wanted = parts.filter((part) => part.pool.resource === resource).length;
    const own = waitsForItself(pool, request, held, wanted);
    if (own > 0) throw new SelfDeadlockError(resource, own, slots.length);
  }
}
