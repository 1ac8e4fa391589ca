import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';
import { PermitLostError } from '../errors';
import { withCurrentPermit } from './current-permit';
import type { Permit } from './permit';

/** Runs `fn` under a permit: renews it meanwhile, cancels `fn` when it is lost, and releases it at the end. */
export async function withHeldPermit<T>(
  permit: Permit,
  renewEveryMs: number | false,
  fn: (permit: Permit) => Promise<T>,
): Promise<T> {
  const body = new CancellationScope();
  let loss: PermitLostError | undefined;
  void permit.lost.then((error) => {
    loss = error;
    body.cancel();
  });
  const renewal = keepRenewed(permit, renewEveryMs);
  try {
    const result = await body.run(() => withCurrentPermit(permit, fn));
    if (loss) throw loss;
    return result;
  } catch (error) {
    throw loss ?? error;
  } finally {
    renewal.cancel();
    await permit.release();
  }
}

/** Renews until cancelled. It outlives a cancelled caller, whose `fn` may still be cleaning up under the permit. */
function keepRenewed(permit: Permit, renewEveryMs: number | false): CancellationScope {
  const shield = new CancellationScope({ cancellable: false });
  const scope = new CancellationScope({ parent: shield, cancellable: true });
  if (renewEveryMs !== false) void scope.run(() => renewRepeatedly(permit, renewEveryMs));
  return scope;
}

async function renewRepeatedly(permit: Permit, everyMs: number): Promise<void> {
  try {
    for (;;) {
      await sleep(everyMs);
      await permit.renew();
    }
  } catch (error) {
    // Others announce both ends: the caller that cancelled the scope, and `permit.lost`.
    if (!isCancellation(error) && !(error instanceof PermitLostError)) throw error;
  }
}
