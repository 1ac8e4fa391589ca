import { AsyncLocalStorage } from 'node:async_hooks';
import { MissingTokenError } from '../shared/fencing-errors';
import { FencingToken, type FencingTokenSource } from '../shared/fencing-token';

const storage = new AsyncLocalStorage<FencingToken>();

/**
 * The token of the permit under which this code runs: in an activity that was called inside `withPermit`, on workers that
 * have `fencingInterceptors` (`temporal-semaphore/fencing-worker`), or inside {@link withFencingToken}.
 *
 * @throws MissingTokenError when there is none, rather than giving `undefined` to a write that would then go unfenced
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
  if (token) return token;
  throw new MissingTokenError(
    'No fencing token here. An activity has one when it was called inside withPermit and the workers of both the ' +
      'Workflow and the activity have fencingInterceptors (temporal-semaphore/fencing-worker).',
  );
}

/**
 * Runs `fn` with `token` as its {@link currentFencingToken}: for holders outside Workflows, and tests.
 * @throws MalformedTokenError when it is no token
 */
export function withFencingToken<T>(token: FencingTokenSource, fn: () => T): T {
  return storage.run(FencingToken.from(token), fn);
}
