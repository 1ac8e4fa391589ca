import { AsyncLocalStorage } from 'node:async_hooks';
import { waitsForItself } from '../../shared/self-deadlock';
import { SelfDeadlockError } from '../errors';
import type { Request } from '../options';
import type { Permit } from './permit';

/** The permits under which code runs: those of all `withPermit`s around it. */
const storage = new AsyncLocalStorage<readonly Permit[]>();

/** Runs `fn` as the holder of these permits too, beside those around it that are not over. It rejects also when `fn` throws before it has made a promise. */
export async function holding<T>(permits: readonly Permit[], fn: () => Promise<T>): Promise<T> {
  const around = storage.getStore() ?? [];
  return await storage.run([...around.filter(({ isOver }) => !isOver), ...permits], fn);
}

/**
 * @param parts one for each permit that the calling code asks for
 * @throws SelfDeadlockError when it would wait for a permit that only itself can give back
 */
export function checkSelfDeadlock(
  parts: readonly { pool: Request['semaphore'] }[],
  request: Pick<Request, 'timeoutMs'>,
): void {
  const held = (storage.getStore() ?? []).filter(({ latest }) => latest.isHeld).map(({ resource }) => resource);
  for (const { pool } of parts) {
    const { resource, slots } = pool;
    const wanted = parts.filter((part) => part.pool.resource === resource).length;
    const own = waitsForItself(pool, request, held, wanted);
    if (own > 0) throw new SelfDeadlockError(resource, own, slots.length);
  }
}
