import { ApplicationFailure } from '@temporalio/workflow';
import { MAX_DURATION_MS } from '../../shared/options';
import type { PermitInput } from '../../shared/protocol';
import { readTerms } from '../../shared/wire-input';

/**
 * Checks a permit's argument: other languages start permits too. A lease that is no number, or one of centuries, would hold the
 * slot for ever. So would a grace that is longer than the lease, for a holder that has gone.
 */
export function checkInput(input: PermitInput): PermitInput {
  const leaseMs: unknown = input?.leaseMs;
  if (!(typeof leaseMs === 'number' && leaseMs > 0 && leaseMs <= MAX_DURATION_MS)) {
    refuse(`leaseMs: expected a number of milliseconds above 0, and at most ${MAX_DURATION_MS}`);
  }
  const { preemptible: given } = input;
  if (given === undefined || given === null) return { ...input, preemptible: undefined };
  const preemptible = readTerms(given);
  if (input.paceMs !== undefined) return refuse('preemptible: expected none beside paceMs, which keeps the slot');
  if (!preemptible || preemptible.graceMs > leaseMs) {
    return refuse('preemptible: expected a graceMs from 1 to leaseMs, and a priorityKey from 1');
  }
  return { ...input, preemptible };
}

function refuse(message: string): never {
  throw ApplicationFailure.nonRetryable(message, 'InvalidOptionsError');
}
