import { StaleTokenError } from '../shared/fencing-errors';
import type { FencingTokenSource } from '../shared/fencing-token';
import { checkResource } from '../shared/permit-id';
import { type CountedAdmission, type FenceGuard, orderedTokenOf } from './guard';

/**
 * A guard in this process's memory: for tests, and for a resource that one process owns. It forgets everything when the
 * process ends, and then admits the first token that comes, whichever that is.
 *
 * @example
 * ```ts
 * const fence = new MemoryFence('ledger');
 * const epoch = await fence.transaction(permit, async ({ epoch }) => {
 *   lines.push({ epoch, text: 'paid' });
 *   return epoch;
 * });
 * ```
 */
export class MemoryFence implements FenceGuard<CountedAdmission> {
  private readonly newest = new Map<string, CountedAdmission>();
  /** For each slot, the end of the last work that entered its queue. */
  private readonly queues = new Map<string, Promise<unknown>>();

  /** @throws InvalidOptionsError when `resource` is not a name that the protocol allows */
  constructor(readonly resource: string) {
    checkResource(resource);
  }

  /** Passes as {@link FenceGuard.admit} says. Another holder may be admitted before you write: see {@link transaction}. */
  async admit(token: FencingTokenSource): Promise<CountedAdmission> {
    return await this.transaction(token, async (admission) => admission);
  }

  /**
   * Admits the token and runs `fn` with the slot locked: nobody else is admitted to it until `fn` is done, so a nested
   * call for the same slot waits for ever. What `fn` has done stays done when it throws.
   *
   * @throws StaleTokenError and what else {@link FenceGuard.admit} throws; `fn` has not run then
   */
  async transaction<T>(source: FencingTokenSource, fn: (admission: CountedAdmission) => Promise<T>): Promise<T> {
    const token = orderedTokenOf(this.resource, source);
    const turn = this.queues.get(token.slot) ?? Promise.resolve();
    const done = turn.then(async () => {
      const newest = this.newest.get(token.slot);
      const order = newest ? token.compare(newest.token) : 1;
      if (newest && order < 0) throw new StaleTokenError(token, newest.token);
      const admission = newest && order === 0 ? newest : { token, epoch: (newest?.epoch ?? 0) + 1 };
      this.newest.set(token.slot, admission);
      return await fn(admission);
    });
    // The next in line waits for the end, whichever it is; the failure itself goes to our caller.
    this.queues.set(
      token.slot,
      done.catch(() => undefined),
    );
    return await done;
  }
}
