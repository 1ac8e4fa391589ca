import { withTokenOf } from '../../fencing/current-token';
import type { OnPreempted } from '../../shared/preemption';
import { runPreemptible } from '../../shared/yielding-permit';
import { PermitPreemptedError } from '../errors';
import { holding } from './held-here';
import type { Permit } from './permit';
import { releaseOrWarn } from './release-or-warn';

/** {@link runPreemptible} outside Workflows. */
export async function underPreemptible<T>(
  first: Permit,
  fn: (permit: Permit) => Promise<T>,
  onPreempted: OnPreempted<Permit, T>,
): Promise<T> {
  return await runPreemptible(first, fn, onPreempted, runUnder, PermitPreemptedError);
}

/** `currentFencingToken()` in `fn` is that of the permit, or of the one that follows it. */
export async function withToken<T>(permit: Permit, fn: (permit: Permit) => Promise<T>): Promise<T> {
  return await withTokenOf(
    () => permit.latest,
    () => fn(permit),
  );
}

/**
 * Runs `fn` under a permit, and releases that. The server says whether the permit ended by its release, or before: `fn` was done in
 * time then.
 */
export async function runUnder<T>(permit: Permit, fn: (permit: Permit) => Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await holding([permit], () => withToken(permit, fn));
  } catch (error) {
    await releaseOrWarn(permit);
    throw permit.latest.toldLoss ?? (await permit.latest.lateLoss()) ?? error;
  }
  await releaseOrWarn(permit);
  const loss = permit.latest.heardLoss ?? (await permit.latest.lateLoss());
  if (loss) throw loss;
  return result;
}
