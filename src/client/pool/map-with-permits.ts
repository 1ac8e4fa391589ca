import type { Duration } from '@temporalio/common';
import { refuse } from '../../shared/invalid-options';
import { type Items, Lanes } from '../../shared/lanes';
import { type MapOptions, type MapOutcome, resolveMap, resultsOf } from '../../shared/map-options';
import { monotonicMs } from '../clock';
import { checkSelfDeadlock } from '../holder/held-here';
import { SemaphoreClient } from '../semaphore-client';
import { PermitPool } from './permit-pool';
import { resolvePoolRequest } from './pool-options';
import type { PooledPermit } from './pooled-permit';

/** How {@link mapWithPermits} works through its items outside Workflows. */
export interface ClientMapOptions extends MapOptions {
  /** Its permits; or a pool, which other callers may use at the same time. */
  semaphore: SemaphoreClient | PermitPool;
  /**
   * How many items run one after the other before the pool's next caller has the permit. The pool reuses the permit in any case, so
   * that a greater number matters only beside other callers of one `PermitPool`. @default 1
   */
  chunk?: number;
  /** As a `PermitPool`'s, which has its own. @default 1 second */
  reuseFor?: Duration;
  /** When it aborts, no further item begins, and the call rejects with its reason once those that run are done. */
  signal?: AbortSignal;
}

/**
 * Runs `fn` for each item under a permit, with at most `concurrency` at once, and gives the results in the order of the items.
 * Permits are held by a {@link PermitPool} and reused between items: see there when they go back. Items may be lazy: they are
 * asked for shortly before they begin.
 *
 * When an item fails, with `onError: 'stop'` no further one begins, those that run come to their end, and this rejects. With
 * `'collect'` the others go on. When a permit is lost, the item that ran under it fails with a `PermitLostError`, and the
 * others go on as `onError` says.
 *
 * @param items a list, or what gives one item after the other
 * @param fn is given the item, its permit and its number; it must heed `permit.signal`
 * @throws the first failure of an item, with `onError: 'stop'`; the failure of the source; the reason of `signal`
 * @throws as `PermitPool.acquire` does, when no permit can be had
 * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource
 * @throws InvalidOptionsError, before any call
 *
 * @example
 * ```ts
 * const vendor = new SemaphoreClient(client, 'vendor-api', { capacity: 20, taskQueue: 'permits' });
 * const answers = await mapWithPermits(orders, (order, { signal }) => callVendor(order, { signal }), { semaphore: vendor });
 * ```
 */
export async function mapWithPermits<T, R, const Options extends ClientMapOptions>(
  items: Items<T>,
  fn: (item: T, permit: PooledPermit, index: number) => Promise<R>,
  options: Options,
): Promise<MapOutcome<R, Options>[]> {
  const { pool, owned, rules, request } = resolve(items, fn, options);
  const { signal } = options;
  signal?.throwIfAborted();
  const over = new AbortController();
  try {
    const { outcomes } = await new Lanes<T, R, PooledPermit>(items, fn, rules, {
      nowMs: monotonicMs,
      open: (use) => openLane(pool, request, use),
      isHeld: (permit) => permit.isHeld,
      lossOf: async (permit) => (permit.signal.aborted ? permit.signal.reason : undefined),
      cancelled: aborted(signal, over.signal),
    }).run();
    return resultsOf(outcomes, rules) as MapOutcome<R, Options>[];
  } finally {
    over.abort();
    await owned?.close();
  }
}

function resolve(items: unknown, fn: unknown, options: ClientMapOptions) {
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  const { semaphore, priority, purpose, reuseFor, signal } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) refuse('signal', 'an AbortSignal', typeof signal);
  const isPool = semaphore instanceof PermitPool;
  if (!isPool && !(semaphore instanceof SemaphoreClient)) {
    refuse('semaphore', 'a SemaphoreClient or a PermitPool', typeof semaphore);
  }
  if (isPool && reuseFor !== undefined) refuse('reuseFor', 'nothing: the pool has its own', reuseFor);
  const request = { priority, purpose };
  const most = isPool ? semaphore.max : semaphore.slotCount;
  const rules = resolveMap(items, fn, options, { concurrency: most, chunk: 1, reuseForMs: 1_000 });
  if (isPool) {
    resolvePoolRequest(request);
    return { pool: semaphore, rules, request };
  }
  const asked = semaphore.request(request);
  checkSelfDeadlock([{ pool: asked.semaphore }], asked);
  const owned = new PermitPool(semaphore, { max: rules.concurrency, reuseFor });
  return { pool: owned, owned, rules, request };
}

/** Only the wait can be left: with a permit, the lane ends by itself. */
function openLane(
  pool: PermitPool,
  request: Pick<MapOptions, 'priority' | 'purpose'>,
  use: (permit: PooledPermit) => Promise<void>,
) {
  const waiting = new AbortController();
  const left = new Error('left');
  const done = pool.withPermit(use, { ...request, signal: waiting.signal }).catch((error: unknown) => {
    if (error !== left) throw error;
  });
  return { done, leave: () => waiting.abort(left) };
}

function aborted(signal: AbortSignal | undefined, over: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true, signal: over });
  });
}
