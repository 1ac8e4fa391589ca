import {
  CancellationScope,
  condition,
  defineSignal,
  getExternalWorkflowHandle,
  isCancellation,
  log,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import {
  type PermitInput,
  type PermitOutcome,
  RELEASE,
  RENEW,
  REVOKE,
  REVOKED,
  type RevokedNotice,
  type RevokeInput,
} from '../shared/protocol';

export const renewSignal = defineSignal(RENEW);
export const releaseSignal = defineSignal(RELEASE);
export const revokeSignal = defineSignal<[RevokeInput?]>(REVOKE);
export const revokedSignal = defineSignal<[RevokedNotice]>(REVOKED);

/**
 * One held permit. The server runs at most one Workflow of this ID, `permit:<resource>:<slot>`, so running *is* holding;
 * when this returns, the slot is free. It ends when the holder releases it, when the lease runs out without a renewal,
 * or when an operator revokes it. A cancel request is a release.
 *
 *     held --release | cancel--> "released"
 *       |---revoke-------------> "revoked"        (the holding Workflow is told why)
 *       |---deadline passed----> "lease-expired"
 *       '---renew--------------> held, deadline = now + lease
 */
export async function permitSlotWorkflow({ leaseMs, holder }: PermitInput): Promise<PermitOutcome> {
  // From the start, not from the first Workflow Task: a holder counts its lease from then too.
  let deadlineMs = workflowInfo().startTime.getTime() + leaseMs;
  let outcome: PermitOutcome | undefined;
  let reason: string | undefined;

  setHandler(renewSignal, () => {
    deadlineMs = Math.max(deadlineMs, Date.now() + leaseMs);
  });
  setHandler(releaseSignal, () => {
    outcome ??= 'released';
  });
  setHandler(revokeSignal, (input) => {
    if (outcome) return;
    outcome = 'revoked';
    reason = input?.reason;
  });

  try {
    while (!outcome) {
      // A renewal leaves the timer alone and moves only the deadline, which is read again on every wake: this saves two
      // events a renewal, and settles a renewal that stands in the same batch as the timer in the holder's favour.
      const leftMs = deadlineMs - Date.now();
      if (leftMs <= 0) outcome = 'lease-expired';
      else await condition(() => outcome !== undefined, leftMs);
    }
  } catch (error) {
    if (!isCancellation(error)) throw error;
    outcome ??= 'released';
  }

  if (outcome === 'revoked' && holder.workflowId) await tellHolder(holder.workflowId, holder.runId, reason);
  return outcome;
}

/** Says why before the end says that: a result has no room for a reason. */
async function tellHolder(workflowId: string, runId: string | undefined, reason: string | undefined): Promise<void> {
  const notice = { workflowId: workflowInfo().workflowId, runId: workflowInfo().runId, reason };
  try {
    await CancellationScope.nonCancellable(() =>
      getExternalWorkflowHandle(workflowId, runId).signal(revokedSignal, notice),
    );
  } catch (error) {
    log.warn('The holder could not be told that its permit is revoked; it may have ended.', { workflowId, error });
  }
}
