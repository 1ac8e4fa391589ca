import { AsyncLocalStorage } from 'node:async_hooks';
import { withTokenOf } from '../../fencing/current-token';
import type { ResolvedSemaphore } from '../../shared/options';
import { waitsForItself } from '../../shared/self-deadlock';
import { SelfDeadlockError } from '../server/errors';
import type { Permit } from './permit';
import { releaseOrWarn } from './release';

/** Runs `fn` with the permit's token as its `currentFencingToken()`, also after the permit has got another one. */
export async function asHolder<T>(permit: Permit, fn: (permit: Permit) => T | Promise<T>): Promise<T> {
  return await withTokenOf(
    () => permit,
    async () => await fn(permit),
  );
}

/**
 * Runs `fn` under a permit, and releases that. The server says whether the permit ended by its release, or before: `fn` was done in
 * time then.
 */
export async function holdWhile<T>(permit: Permit, fn: (permit: Permit) => T | Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await holding([permit], () => asHolder(permit, fn));
  } catch (error) {
    await releaseOrWarn(permit);
    throw permit.loss ?? (permit.signal.aborted ? permit.signal.reason : ((await permit.confirmLoss()) ?? error));
  }
  await releaseOrWarn(permit);
  const loss = permit.loss ?? (await permit.confirmLoss());
  if (loss) throw loss;
  return result;
}

/** The permits under which code runs: those of all `withPermit`s around it. */
const storage = new AsyncLocalStorage<readonly Permit[]>();

/** Runs `fn` as the holder of these permits too, beside those around it that are not over. It rejects also when `fn` throws before it has made a promise. */
export async function holding<T>(permits: readonly Permit[], fn: () => T | Promise<T>): Promise<T> {
  const around = storage.getStore() ?? [];
  return await storage.run([...around.filter(({ isOver }) => !isOver), ...permits], fn);
}

/** The permit of this resource and key under which the calling code runs already. */
export function heldHere(resource: string, key: string | undefined): Permit | undefined {
  return storage.getStore()?.find((it) => it.isHeld && it.resource === resource && it.key === key);
}

/**
 * @param wanted the semaphores of which the calling code wants a permit: one entry for each permit
 * @throws SelfDeadlockError when it would wait for a permit that only itself can give back
 */
export function checkSelfDeadlock(wanted: readonly ResolvedSemaphore[], limits: { timeoutMs: number }): void {
  const held = resourcesHeld();
  for (const semaphore of wanted) {
    const { resource, slots } = semaphore;
    const own = waitsForItself(semaphore, limits, held, wanted.filter((it) => it.resource === resource).length);
    if (own > 0) throw new SelfDeadlockError(resource, own, slots.length);
  }
}

/** How many permits the calling code holds around a call that waits for itself; 0 where it does not. */
export function ownWait(semaphore: ResolvedSemaphore): number {
  return waitsForItself(semaphore, { timeoutMs: Number.POSITIVE_INFINITY }, resourcesHeld());
}

function resourcesHeld(): string[] {
  return (storage.getStore() ?? []).filter(({ isHeld }) => isHeld).flatMap(({ resources }) => resources);
}
