import type { OnPreempted } from '../../shared/preemption';
import { runPreemptible } from '../../shared/yielding-permit';
import { PermitPreemptedError } from '../errors';
import type { Permit } from './permit';
import { withHeldPermit } from './with-permit';

/** {@link runPreemptible} in a Workflow. */
export async function withPreemptiblePermit<T>(
  first: Permit,
  renewEveryMs: number | false,
  fn: (permit: Permit) => Promise<T>,
  onPreempted: OnPreempted<Permit, T>,
): Promise<T> {
  const runUnder = (permit: Permit, run: typeof fn) => withHeldPermit(permit, renewEveryMs, run);
  return await runPreemptible(first, fn, onPreempted, runUnder, PermitPreemptedError);
}
