import { withTokenOf } from '../../fencing/current-token';
import type { OnPreempted } from '../../shared/preemption';
import { PermitPreemptedError } from '../errors';
import { holding } from './held-here';
import type { Permit } from './permit';
import { releaseOrWarn } from './release-or-warn';

/**
 * Runs `fn` under a permit that waiters of higher priority can take, as `onPreempted` says:
 *
 *     running --pre-empted--> stopping --reject--> throws
 *        ^                       '--restart | replace--> in line, with the old place --.
 *        '------------------------------------------------------------------------------'
 */
export async function underPreemptible<T>(
  first: Permit,
  fn: (permit: Permit) => Promise<T>,
  onPreempted: OnPreempted<Permit, T>,
): Promise<T> {
  let run = fn;
  for (let permit = first; ; permit = await permit.latest.again()) {
    try {
      return await runUnder(permit, run);
    } catch (error) {
      const isOurs = error instanceof PermitPreemptedError && error.runId === permit.latest.runId;
      if (!isOurs || onPreempted === 'reject') throw error;
      if (onPreempted !== 'restart') run = onPreempted.replace;
    }
  }
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
