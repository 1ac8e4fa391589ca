import type { FencingTokenSource } from '../shared/fencing-token';
import { StaleTokenError } from '../shared/fencing-token';
import { checkResource } from '../shared/permit-id';
import { type CountedAdmission, type FenceGuard, orderedTokenOf } from './guard';

/**
 * A guard in this process's memory. Use it in tests, and for a resource that one process owns. When the process ends, the
 * guard forgets everything. A new process then admits whichever token comes first.
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
  /** For each slot, a promise that resolves when the last work in its queue has ended. */
  private readonly queues = new Map<string, Promise<unknown>>();

  /** @throws InvalidOptionsError when `resource` is not a name that the protocol allows */
  constructor(readonly resource: string) {
    checkResource(resource);
  }

  /** See {@link FenceGuard.admit}. The fence may admit another holder before you write; {@link transaction} prevents that. */
  async admit(token: FencingTokenSource): Promise<CountedAdmission> {
    return await this.transaction(token, async (admission) => admission);
  }

  /**
   * Admits the token and runs `fn` with the slot locked. The fence admits no other holder to the slot until `fn` has ended, so a
   * nested call for the same slot deadlocks. Nothing that `fn` did is undone when it throws.
   *
   * @throws StaleTokenError, or another error of {@link FenceGuard.admit}, before `fn` runs
   */
  async transaction<T>(source: FencingTokenSource, fn: (admission: CountedAdmission) => Promise<T>): Promise<T> {
    const token = orderedTokenOf(this.resource, source);
    const turn = this.queues.get(token.slot) ?? Promise.resolve();
    const done = turn.then(async () => {
      const newest = this.newest.get(token.slot);
      if (newest && token.compare(newest.token) < 0) throw new StaleTokenError(token, newest.token);
      const isSameHolder = newest?.token.runId === token.runId;
      const admission = { token, epoch: (newest?.epoch ?? 0) + (isSameHolder ? 0 : 1) };
      // The permit's own token makes no activity stale.
      if (!isSameHolder || token.activity) this.newest.set(token.slot, admission);
      return await fn(admission);
    });
    // The next holder waits until this work has ended, also by a failure. The caller alone gets the failure.
    this.queues.set(
      token.slot,
      done.catch(() => undefined),
    );
    return await done;
  }
}
