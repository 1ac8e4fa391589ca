import { ApplicationFailure, condition, sleep, upsertMemo } from '@temporalio/workflow';
import { MAX_DURATION_MS } from '../../shared/options';
import type { PaceMemo } from '../../shared/pace-protocol';
import type { PermitInput, PermitOutcome } from '../../shared/protocol';
import { holdSlot } from './permit-slot';

/**
 * A permit that outlives its holder: released or not, it stays until its pace has passed since it was taken, so that nobody takes
 * its slot earlier. Nor does its lease end before. Only an operator's `revoke` frees the slot at once.
 *
 *     held --release | cancel--> paced --pace over | revoke--> "released"
 *       '--as any permit, but the lease ends no earlier than the pace
 */
export async function pacedPermitWorkflow(input: PermitInput): Promise<PermitOutcome> {
  // From the first task, which comes after the claim. The start's own time may be a little before it.
  const untilMs = Date.now() + checkPace(input);
  return await holdSlot(input, {
    untilMs,
    async over(isRevoked) {
      const releasedAtMs = Date.now();
      const leftMs = untilMs - releasedAtMs;
      if (leftMs <= 0) return;
      upsertMemo({ pacedUntilMs: untilMs, releasedAtMs } satisfies PaceMemo);
      await Promise.race([sleep(leftMs), condition(isRevoked)]);
    },
  });
}

/** Other languages start this too. */
function checkPace(input: PermitInput): number {
  const paceMs: unknown = input?.paceMs;
  if (typeof paceMs === 'number' && paceMs > 0 && paceMs <= MAX_DURATION_MS) return paceMs;
  throw ApplicationFailure.nonRetryable(
    `paceMs: expected a number of milliseconds above 0, and at most ${MAX_DURATION_MS}`,
    'InvalidOptionsError',
  );
}
