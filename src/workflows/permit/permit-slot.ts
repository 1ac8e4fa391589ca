import {
  CancellationScope,
  condition,
  defineQuery,
  isCancellation,
  setHandler,
  sleep,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import { PERMIT_STATUS, type PermitStatus } from '../../shared/operator-protocol';
import type { PermitInput, PermitMemo, PermitOutcome } from '../../shared/protocol';
import { MAX_SIGNALS } from '../../shared/run-limits';
import { readHolder, readLeaseMs, readReason } from '../../shared/wire-input';
import { countHold } from '../metrics';
import { onSignal, signalsTaken } from '../signal-inbox';
import { adoptSignal, releaseSignal, renewSignal, revokeSignal, watchSignal } from '../signals';
import { DrainedSlot } from './drained-slot';
import { EndNotices } from './end-notices';
import { checkInput } from './permit-input';
import { Preemption } from './preemption';

const permitViewQuery = defineQuery<PermitStatus>(PERMIT_STATUS);

/**
 * One held permit. The server runs at most one Workflow of this ID, `permit:<resource>:<slot>`, so running *is* holding.
 * When this returns, the slot is free. It ends when the holder releases it, when the lease runs out without a renewal,
 * when a waiter of higher priority has asked for it, or when an operator revokes it. A cancel request is a release. A queue
 * that watches the permit hears of its end first.
 *
 *     held --release | cancel--> "released"
 *       |---revoke-------------> "revoked"        (the holding Workflow is told why)
 *       |---deadline passed----> "lease-expired"
 *       |---preempt, grace over> "preempted"      (see `preemption`)
 *       |---renew--------------> held, deadline = now + lease, or what the renewal says
 *       '---adopt--------------> held by somebody else, deadline = now + lease
 *
 * The server takes 10,000 signals. A stranger who sends so many keeps renewals out, so the lease of such a permit no longer ends it: its
 * holder releases it by a cancel request.
 */
export async function permitSlotWorkflow(input: PermitInput): Promise<PermitOutcome> {
  return await holdSlot(input);
}

/** @param pace keeps the slot until then at least, whatever its holder does */
export async function holdSlot(
  input: PermitInput,
  pace?: { untilMs: number; over(isRevoked: () => boolean): Promise<void> },
) {
  const checked = checkInput(input);
  const { leaseMs, holder, watchedBy } = checked;
  const { startTime, workflowId, runId } = workflowInfo();
  // From the start, not from the first Workflow Task: a holder counts its lease from then too.
  let deadlineMs = Math.max(startTime.getTime() + leaseMs, pace?.untilMs ?? 0);
  let outcome: PermitOutcome | undefined;
  let reason: string | undefined;
  let isRevoked = false;
  const endNotices = new EndNotices(() => ({ workflowId, runId, outcome: outcome ?? 'released', reason }));
  endNotices.toParent(holder);
  endNotices.toQueue({ queueId: watchedBy });
  const preemption = new Preemption(checked, holder, () => outcome !== undefined);
  const drained = DrainedSlot.of(holder);

  setHandler(permitViewQuery, () => ({ deadlineMs: Math.min(deadlineMs, preemption.endsAtMs) }));
  onSignal(renewSignal, (renewal) => {
    deadlineMs = Math.max(deadlineMs, Date.now() + (readLeaseMs(renewal) ?? leaseMs));
  });
  onSignal(releaseSignal, () => {
    outcome ??= 'released';
  });
  onSignal(revokeSignal, (revocation) => {
    isRevoked = true;
    if (outcome) return;
    outcome = 'revoked';
    reason = readReason(revocation);
  });
  let adopted: PermitMemo['holder'] | undefined;
  const writeAdopter = () => {
    if (adopted) upsertMemo({ holder: adopted } satisfies Partial<PermitMemo>);
    adopted = undefined;
  };
  onSignal(adoptSignal, (adoption) => {
    const adopter = readHolder(adoption?.holder);
    if (!adopter) return;
    deadlineMs = Math.max(deadlineMs, Date.now() + leaseMs);
    // Of a thousand adopters in one Workflow Task, the last one's name is written.
    if (!adopted) void Promise.resolve().then(writeAdopter);
    adopted = adopter;
    endNotices.toAdopter(adopter);
    preemption.heldBy(adopter);
  });
  onSignal(watchSignal, (watch) => {
    endNotices.toQueue(watch);
    preemption.answer(watch);
    drained?.answer();
  });

  try {
    while (!outcome) {
      // A renewal leaves the timer alone and moves only the deadline, which is read again on every wake: this saves two
      // events a renewal, and settles a renewal that stands in the same batch as the timer in the holder's favour. Nor is
      // the timer cancelled at the end, as `condition(…, leftMs)` would: it ends with us.
      const { endsAtMs } = preemption;
      const leftMs =
        Math.min(signalsTaken() < MAX_SIGNALS ? deadlineMs : Number.POSITIVE_INFINITY, endsAtMs) - Date.now();
      if (leftMs <= 0 && (await drained?.hasQueue())) deadlineMs = Date.now() + leaseMs;
      else if (leftMs <= 0) outcome ??= preemption.isOver ? 'preempted' : 'lease-expired';
      else {
        const isChanged = condition(() => !!outcome || preemption.endsAtMs !== endsAtMs);
        await (leftMs < Number.POSITIVE_INFINITY ? Promise.race([sleep(leftMs), isChanged]) : isChanged);
      }
    }
  } catch (error) {
    if (!isCancellation(error)) throw error;
    outcome ??= 'released';
  }
  countHold(holder, outcome);

  // The result, "revoked", has no room for a reason, and nobody can signal a client.
  if (reason) upsertMemo({ revokedBecause: reason } satisfies Partial<PermitMemo>);
  await CancellationScope.nonCancellable(async () => {
    if (outcome === 'released') await pace?.over(() => isRevoked);
    await endNotices.send();
  });
  return outcome;
}
