import { AsyncLocalStorage } from 'node:async_hooks';
import { FencingToken, type FencingTokenSource, MissingTokenError } from '../shared/fencing-token';

const storage = new AsyncLocalStorage<() => FencingToken>();

/**
 * The token of the permit under which this code runs. An activity has a token if a Workflow called it inside `withPermit` and
 * the workers of both have a `SemaphorePlugin`, or `fencingInterceptors` (`temporal-semaphore/fencing-worker`); and if it is limited by a
 * `SemaphorePlugin`. Code inside {@link withFencingToken} has a token too, and so has the function of
 * `withPermit` of a client or a permit pool. `withPermits` holds several, and so sets none: pass `String(permit.token)` on.
 *
 * @throws MissingTokenError when there is none: with `undefined`, a write would not be fenced
 *
 * @example
 * ```ts
 * export async function append(line: string): Promise<void> {
 *   await fence.transaction(pool, currentFencingToken(), async ({ client }) => {
 *     await client.query('INSERT INTO ledger (line) VALUES ($1)', [line]);
 *   });
 * }
 * ```
 */
export function currentFencingToken(): FencingToken {
  const token = storage.getStore();
  if (token) return token();
  throw new MissingTokenError(
    'There is no fencing token here. An activity has one when its Workflow called it inside withPermit and the workers ' +
      'of both have a SemaphorePlugin, or fencingInterceptors (temporal-semaphore/fencing-worker). withPermits holds several ' +
      'permits and so sets none: pass String(permit.token) on.',
  );
}

/**
 * Runs `fn` with `token` as its {@link currentFencingToken}: for holders outside Workflows, and for tests.
 *
 * @throws MalformedTokenError when `token` is not a fencing token
 *
 * @example
 * ```ts
 * import { withFencingToken } from 'temporal-semaphore/fencing';
 *
 * const held = await calls.acquire();
 * await withFencingToken(held, () => append('paid')); // append() reads currentFencingToken()
 * held.release();
 * ```
 */
export function withFencingToken<T>(token: FencingTokenSource, fn: () => T): T {
  const fixed = FencingToken.from(token);
  return storage.run(() => fixed, fn);
}

/** Runs `fn` with the token of a permit that may change meanwhile. For this package's own holders. */
export function withTokenOf<T>(permit: () => FencingTokenSource, fn: () => T): T {
  return storage.run(() => FencingToken.from(permit()), fn);
}
