import { TemporalFailure } from '@temporalio/common';
import { AsyncLocalStorage, CancellationScope, ContinueAsNew, isCancellation, sleep } from '@temporalio/workflow';
import { HeldHere } from '../../shared/held-here';
import { releaseInReverse } from '../../shared/permit-set';
import { checkPlace, PermitLostError, SelfDeadlockError } from '../errors';
import { queuesKnow } from './holder-inbox';
import type { Permit } from './permit';

/** Runs `fn` under a permit: renews the permit meanwhile, cancels `fn` when the permit is lost, and releases the permit at the end. */
export async function holdWhile<T>(
  permit: Permit,
  renewEveryMs: number | false,
  fn: (permit: Permit) => T | Promise<T>,
  isWholeRun = false,
): Promise<T> {
  return await holdAllWhile([permit], [new KeptPermit(permit, renewEveryMs)], () => asHolder(permit, fn), isWholeRun);
}

/**
 * Runs `fn` under permits: cancels `fn` when a permit is lost or pre-empted, and releases all permits at the end. If a permit
 * is pre-empted and `fn` returns within the grace anyway, its result counts.
 *
 * What ends the run, or its Workflow Task, does not wait for the release:
 * - *The end of the run.* Its handlers would take messages meanwhile, and no code would process them. The server then releases permits that
 *   end with the run.
 * - *A bug.* Unless the error is caught, it fails the Workflow Task, and all that the task has done is undone. A release that has got into the
 *   history could not be undone by the code that a deploy mends. The permit may end meanwhile: the mended code is notified of the loss.
 *
 * But after a loss, both wait until the queue knows of it.
 *
 * @param kept what is renewed meanwhile, and released: the permits, or the grants that they stand on
 * @param isWholeRun the run ends with `fn`
 */
export async function holdAllWhile<T>(
  permits: readonly Permit[],
  kept: readonly KeptPermit[],
  fn: () => T | Promise<T>,
  isWholeRun = false,
): Promise<T> {
  const caller = CancellationScope.current();
  const body = new CancellationScope();
  let loss: PermitLostError | undefined;
  let stopped: PermitLostError | undefined;
  for (const permit of permits) {
    void permit.lost.then((error) => {
      loss ??= error;
    });
    void permit.mustStop.then((error) => {
      stopped ??= error;
      body.cancel();
    });
  }
  const [done] = await Promise.allSettled([body.run(async () => await heldHere.run(permits, fn))]);
  const error: unknown = done.status === 'rejected' ? done.reason : undefined;
  if (loss) await queuesKnow();
  const endWithRun = permits.every(({ outlivesRun }) => !outlivesRun);
  const released = isWholeRun && endWithRun ? undefined : releaseInReverse(kept);
  if (done.status === 'rejected' && isBug(error)) throw error;
  if (released && !(endWithRun && error instanceof ContinueAsNew)) {
    await released;
    for (const permit of permits) loss ??= await permit.confirmLoss();
  }
  if (loss) throw loss;
  if (done.status === 'fulfilled') return done.value;
  throw caller.consideredCancelled || error instanceof ContinueAsNew ? error : (stopped ?? error);
}

/** Whether the SDK takes the error for a bug. If the user has such errors fail the Workflow (`failureExceptionTypes`), the run ends. */
function isBug(error: unknown): boolean {
  return !(error instanceof TemporalFailure || error instanceof ContinueAsNew);
}

/** What can be renewed until it is released: a permit, or a grant. */
interface Renewable {
  readonly isHeld: boolean;
  /** Whether it is given up for a while: it is renewed again later. */
  readonly isAway?: boolean;
  renew(): Promise<unknown>;
  release(): Promise<void>;
}

/** Renews a permit until it is released, even if the caller is cancelled, since the caller may still be cleaning up. */
export class KeptPermit<Kept extends Renewable = Renewable> {
  private readonly renewal: CancellationScope;

  constructor(
    readonly permit: Kept,
    renewEveryMs: number | false,
  ) {
    const shield = new CancellationScope({ cancellable: false });
    this.renewal = new CancellationScope({ parent: shield, cancellable: true });
    if (renewEveryMs !== false) void this.renewal.run(() => renewRepeatedly(permit, renewEveryMs));
  }

  /** From now on, the caller renews the permit. */
  stopRenewing(): void {
    this.renewal.cancel();
  }

  async release(): Promise<void> {
    this.stopRenewing();
    await this.permit.release();
  }
}

async function renewRepeatedly(permit: Renewable, everyMs: number): Promise<void> {
  try {
    for (;;) {
      await sleep(everyMs);
      if (permit.isAway) continue;
      if (!permit.isHeld) return; // the function has released it, or handed it over
      await permit.renew().catch((error: unknown) => {
        // A permit that was given up during the renewal is not lost: it is renewed again when it is held again.
        if (!(error instanceof PermitLostError && (permit.isAway || permit.isHeld))) throw error;
      });
    }
  } catch (error) {
    // Both errors are reported elsewhere: the caller has cancelled the scope, or `permit.lost` has resolved.
    if (!isCancellation(error) && !(error instanceof PermitLostError)) throw error;
  }
}

/** The permits under which the code of this Workflow runs. */
export const heldHere = new HeldHere<Permit>(new AsyncLocalStorage(), SelfDeadlockError);

/** The permit of the innermost function under one permit. */
const innermost = new AsyncLocalStorage<Permit>();

/** Runs `fn` with `permit` as the {@link currentPermit} of everything it calls. */
export function asHolder<T>(permit: Permit, fn: (permit: Permit) => T): T {
  return innermost.run(permit, () => fn(permit));
}

/**
 * The permit of the innermost `withPermit` around the calling code; `undefined` outside of any. Signal, query and update
 * handlers run outside, even while the Workflow holds a permit.
 */
export function currentPermit(): Permit | undefined {
  checkPlace(
    'currentPermit() works only in Workflow code. An activity reads currentFencingToken() of temporal-semaphore/fencing.',
  );
  return innermost.getStore();
}
