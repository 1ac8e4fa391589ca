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

/** A function that returns within the grace was done in time: the server says whether the permit ended by its release. */
async function runUnder<T>(permit: Permit, fn: (permit: Permit) => Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await holding([permit], () =>
      withTokenOf(
        () => permit.latest,
        () => fn(permit),
      ),
    );
  } catch (error) {
    await releaseOrWarn(permit);
    throw permit.latest.toldLoss ?? error;
  }
  await releaseOrWarn(permit);
  const { latest } = permit;
  const loss = (await latest.preemptedInVain()) ?? latest.heardLoss;
  if (loss) throw loss;
  return result;
}
