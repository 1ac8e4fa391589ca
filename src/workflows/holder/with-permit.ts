import { CancellationScope, ContinueAsNew, isCancellation, sleep } from '@temporalio/workflow';
import { releaseInReverse } from '../../shared/permit-set';
import { PermitLostError, type PermitPreemptedError } from '../errors';
import { holding, withCurrentPermit } from './current-permit';
import type { Permit } from './permit';

/** Runs `fn` under a permit: renews it meanwhile, cancels `fn` when it is lost, and releases it at the end. */
export async function withHeldPermit<T>(
  permit: Permit,
  renewEveryMs: number | false,
  fn: (permit: Permit) => Promise<T>,
): Promise<T> {
  return await underPermits([new KeptPermit(permit, renewEveryMs)], () => withCurrentPermit(permit, fn));
}

/**
 * Runs `fn` under permits: cancels it when one is lost or pre-empted, and releases them all at the end, the last first. The result of
 * a function that has returned although its permit is pre-empted counts.
 */
export async function underPermits<T>(held: readonly KeptPermit[], fn: () => Promise<T>): Promise<T> {
  const caller = CancellationScope.current();
  const body = new CancellationScope();
  let loss: PermitLostError | undefined;
  let preemption: PermitPreemptedError | undefined;
  const watch = (permit: Permit): void => {
    void permit.lost.then((error) => {
      loss ??= error;
      body.cancel();
    });
    void permit.preempted.then((error) => {
      if (permit.atCheckpoints) return;
      preemption ??= error;
      body.cancel();
    });
    permit.whenFollowed(watch);
  };
  for (const { permit } of held) watch(permit);
  const permits = held.map(({ permit }) => permit);
  const [done] = await Promise.allSettled([body.run(() => holding(permits, fn))]);
  await releaseInReverse(held);
  for (const { latest } of permits) loss ??= await latest.lateLoss();
  if (loss) throw loss;
  if (done.status === 'fulfilled') return done.value;
  const error: unknown = done.reason;
  throw caller.consideredCancelled || error instanceof ContinueAsNew ? error : (preemption ?? error);
}

/** A permit that is renewed from now until it is released. That outlives a cancelled caller, which may still be cleaning up. */
export class KeptPermit {
  private readonly renewal: CancellationScope;

  constructor(
    readonly permit: Permit,
    renewEveryMs: number | false,
  ) {
    const shield = new CancellationScope({ cancellable: false });
    this.renewal = new CancellationScope({ parent: shield, cancellable: true });
    if (renewEveryMs !== false) void this.renewal.run(() => renewRepeatedly(permit, renewEveryMs));
  }

  get resource(): string {
    return this.permit.resource;
  }

  get slot(): string {
    return this.permit.slot;
  }

  /** Leaves the renewing to the caller. */
  stopRenewing(): void {
    this.renewal.cancel();
  }

  async release(): Promise<void> {
    this.stopRenewing();
    await this.permit.release();
  }
}

/** A permit that was given up while it was renewed is not lost: the next one is renewed. */
function unlessGivenUp(permit: Permit): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof PermitLostError && (permit.isAway || permit.latest !== permit))) throw error;
  };
}

async function renewRepeatedly(permit: Permit, everyMs: number): Promise<void> {
  try {
    for (;;) {
      await sleep(everyMs);
      const { latest } = permit;
      if (latest.isAway) continue;
      if (!latest.isHeld) return; // the function has released it, or handed it over
      await latest.renew().catch(unlessGivenUp(latest));
    }
  } catch (error) {
    // Both errors show elsewhere: the caller has cancelled the scope, or `permit.lost` has resolved.
    if (!isCancellation(error) && !(error instanceof PermitLostError)) throw error;
  }
}
