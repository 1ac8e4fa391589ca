import type { OnPreempted } from '../../shared/preemption';
import { PermitPreemptedError } from '../errors';
import type { Permit } from './permit';
import { withHeldPermit } from './with-permit';

/**
 * Runs `fn` under a permit that waiters of higher priority can take, as `onPreempted` says:
 *
 *     running --pre-empted--> stopping --reject--> throws
 *        ^                       '--restart | replace--> in line, with the old place --.
 *        '------------------------------------------------------------------------------'
 */
export async function withPreemptiblePermit<T>(
  first: Permit,
  renewEveryMs: number | false,
  fn: (permit: Permit) => Promise<T>,
  onPreempted: OnPreempted<Permit, T>,
): Promise<T> {
  let run = fn;
  for (let permit = first; ; permit = await permit.latest.again()) {
    try {
      const result = await withHeldPermit(permit, renewEveryMs, run);
      const late = await permit.latest.preemptedInVain();
      if (!late) return result; // it was done within the grace
      throw late;
    } catch (error) {
      const isOurs = error instanceof PermitPreemptedError && error.runId === permit.latest.runId;
      if (!isOurs || onPreempted === 'reject') throw error;
      if (onPreempted !== 'restart') run = onPreempted.replace;
    }
  }
}
