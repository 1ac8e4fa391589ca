import { AsyncLocalStorage } from 'node:async_hooks';
import { withTokenOf } from '../../fencing/current-token';
import type { ResolvedSemaphore } from '../../shared/options';
import { waitsForItself } from '../../shared/self-deadlock';
import { messageOf, SelfDeadlockError } from '../errors';
import { isClosedConnection } from '../server';
import type { Permit } from './permit';

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

/** What {@link releaseOrWarn} releases, and names where that fails. */
interface Released {
  readonly workflowId: string;
  readonly runId: string;
  readonly deadline: Date;
  /** Why the release has not reached the server, where the lease has ended the permit. */
  readonly releaseError?: unknown;
  release(): Promise<void>;
}

/**
 * Releases a permit after its work is done. A release that fails only warns, since the work counts more. (The warning is Node's:
 * a library has no log.) The slot then stays taken until the lease ends, which an operator may want to know.
 */
export async function releaseOrWarn(permit: Released): Promise<void> {
  const error = await permit.release().then(
    () => permit.releaseError,
    (error: unknown) => error,
  );
  if (error !== undefined) warn(permit, error);
}

function warn({ workflowId, runId, deadline }: Released, error: unknown): void {
  const isClosed = isClosedConnection(error);
  process.emitWarning(
    `The permit ${workflowId}, run ${runId}, could not be released${isClosed ? ', for its connection was closed before' : ''}. It ends by its lease.`,
    {
      type: 'PermitReleaseWarning',
      detail: `At ${deadline.toISOString()} at the latest, while a permit worker runs. ${isClosed ? 'Await withPermit, or the release, before you close the connection.' : messageOf(error)}`,
    },
  );
}
