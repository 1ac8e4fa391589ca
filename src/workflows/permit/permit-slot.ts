import {
  ApplicationFailure,
  CancellationScope,
  condition,
  defineQuery,
  isCancellation,
  setHandler,
  sleep,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import { MAX_DURATION_MS } from '../../shared/check';
import { parsePermitId, queueId } from '../../shared/permit-id';
import {
  type Holder,
  PERMIT_STATUS,
  type PermitInput,
  type PermitMemo,
  type PermitOutcome,
  type PermitStatus,
} from '../../shared/protocol';
import { MAX_SIGNALS } from '../../shared/run-limits';
import { readHolder, readLeaseMs, readReason, readTerms } from '../../shared/wire-input';
import { onSignal, signalsTaken, takeEarlySignals } from '../inbox';
import { countHold } from '../metrics';
import {
  adoptSignal,
  deliver,
  drainedSignal,
  oneAtATime,
  releaseSignal,
  renewSignal,
  revokeSignal,
  shielded,
  watchSignal,
} from '../signals';
import { EndNotices } from './end-notices';
import { GivingWay } from './giving-way';

const permitViewQuery = defineQuery<PermitStatus>(PERMIT_STATUS);

/**
 * One held permit. The server runs at most one Workflow of this ID, `permit:<resource>:<slot>`, so running *is* holding.
 * When this returns, the slot is free. It ends when the holder releases it, when the lease runs out without a renewal,
 * when a waiter of higher priority has asked for it, or when an operator revokes it. A cancel request is a release. A queue
 * that watches the permit is notified of its end first.
 *
 *     held --release | cancel--> "released"
 *       |---revoke-------------> "revoked"        (the holding Workflow is told why)
 *       |---deadline passed----> "lease-expired"
 *       |---preempt, grace over> "preempted"      (see `giving-way`)
 *       |---renew--------------> held, deadline = now + lease, or what the renewal says
 *       '---adopt--------------> held by its adopter, deadline = now + lease
 *
 * The server takes 10,000 signals for one run. A foreign client that sends that many keeps renewals out, so the lease no longer ends such a
 * permit: its holder releases it with a cancel request.
 */
export async function permitSlotWorkflow(input: PermitInput): Promise<PermitOutcome> {
  return await holdSlot(input);
}

interface Pace {
  /** The permit keeps its slot until then at least, whatever its holder does. */
  untilMs: number;
  over(isRevoked: () => boolean): Promise<void>;
}

async function holdSlot(input: PermitInput, pace?: Pace) {
  const checked = checkInput(input);
  const { leaseMs, holder, watchedBy } = checked;
  const { startTime, workflowId, runId } = workflowInfo();
  // From the start, not from the first Workflow Task: a holder counts its lease from then too.
  let deadlineMs = Math.max(startTime.getTime() + leaseMs, pace?.untilMs ?? 0);
  let outcome: PermitOutcome | undefined;
  let reason: string | undefined;
  let isRevoked = false;
  let heldBy = readHolder(holder);
  let releasedBy: string | undefined;
  const endNotices = new EndNotices(
    () => ({ workflowId, runId, outcome: outcome ?? 'released', reason }),
    () => releasedBy,
  );
  endNotices.toParent(holder);
  endNotices.toQueue({ queueId: watchedBy });
  const givingWay = new GivingWay(checked, holder, () => outcome !== undefined);
  const drained = DrainedSlot.of(holder);

  setHandler(permitViewQuery, () => ({ deadlineMs: Math.min(deadlineMs, givingWay.endsAtMs) }));
  onSignal(renewSignal, (renewal) => {
    deadlineMs = Math.max(deadlineMs, Date.now() + (readLeaseMs(renewal) ?? leaseMs));
  });
  onSignal(releaseSignal, () => {
    if (!outcome) releasedBy = heldBy?.workflowId ?? heldBy?.identity;
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
    heldBy = adopter;
    endNotices.toAdopter(adopter);
    givingWay.heldBy(adopter);
  });
  onSignal(watchSignal, (watch) => {
    endNotices.toQueue(watch);
    givingWay.answer(watch);
    drained?.answer();
  });
  takeEarlySignals();

  try {
    while (!outcome) {
      // A renewal moves only the deadline, and each wake reads the deadline again. A timer that stays saves two events a renewal,
      // and a renewal in the same batch as the timer counts. Nor does the permit cancel the timer at its end, as
      // `condition(…, leftMs)` would, nor a cancel request: the timer ends with the permit.
      const { endsAtMs } = givingWay;
      const leftMs =
        Math.min(signalsTaken() < MAX_SIGNALS ? deadlineMs : Number.POSITIVE_INFINITY, endsAtMs) - Date.now();
      if (leftMs <= 0 && (await drained?.hasQueue())) deadlineMs = Date.now() + leaseMs;
      else if (leftMs <= 0) outcome ??= givingWay.isOver ? 'preempted' : 'lease-expired';
      else {
        const isChanged = condition(() => !!outcome || givingWay.endsAtMs !== endsAtMs);
        await (leftMs < Number.POSITIVE_INFINITY
          ? Promise.race([shielded(() => sleep(leftMs)), isChanged])
          : isChanged);
      }
    }
  } catch (error) {
    if (!isCancellation(error)) throw error;
    outcome ??= 'released';
  }
  countHold(holder, outcome);

  // A client can't be signalled, and the result, "revoked", has no room for a reason.
  if (reason) upsertMemo({ revokedBecause: reason } satisfies Partial<PermitMemo>);
  await CancellationScope.nonCancellable(async () => {
    if (outcome === 'released') await pace?.over(() => isRevoked);
    await endNotices.send();
  });
  return outcome;
}

/**
 * Checks a permit's argument: other languages start permits too. A grace that is longer than the lease would hold the slot for too
 * long when the holder is gone.
 */
function checkInput(input: PermitInput): PermitInput {
  const leaseMs = checkMs('leaseMs', input?.leaseMs);
  const { preemptible: given } = input;
  if (given === undefined || given === null) return { ...input, preemptible: undefined };
  const preemptible = readTerms(given);
  if (input.paceMs !== undefined) return refuse('preemptible: expected none beside paceMs, which keeps the slot');
  if (!preemptible || preemptible.graceMs > leaseMs) {
    return refuse('preemptible: expected a graceMs from 1 to leaseMs, and a priorityKey from 1');
  }
  return { ...input, preemptible };
}

/** Checks a lease or a pace: if it is no number, or lasts centuries, it would hold the slot indefinitely. */
function checkMs(what: 'leaseMs' | 'paceMs', ms: unknown): number {
  if (typeof ms === 'number' && ms > 0 && ms <= MAX_DURATION_MS) return ms;
  return refuse(`${what}: expected a number of milliseconds above 0, and at most ${MAX_DURATION_MS}`);
}

function refuse(message: string): never {
  throw ApplicationFailure.nonRetryable(message, 'InvalidOptionsError');
}

/**
 * A permit that keeps its slot until its pace has passed, counted from the claim, even if its holder releases it earlier. Its lease
 * ends no earlier either. Only an operator's `revoke` frees the slot at once.
 *
 *     held --release | cancel--> paced --pace over | revoke--> "released"
 *       '--as any permit, but the lease ends no earlier than the pace
 */
export async function pacedPermitWorkflow(input: PermitInput): Promise<PermitOutcome> {
  // From the first Workflow Task, which comes after the claim. The start's own time may be a little before the claim.
  const untilMs = Date.now() + checkMs('paceMs', input?.paceMs);
  return await holdSlot(input, {
    untilMs,
    async over(isRevoked) {
      const releasedAtMs = Date.now();
      if (releasedAtMs >= untilMs) return;
      upsertMemo({ pacedUntilMs: untilMs, releasedAtMs } satisfies Partial<PermitMemo>);
      await Promise.race([sleep(untilMs - releasedAtMs), condition(isRevoked)]);
    },
  });
}

/**
 * A permit with which the queue keeps a slot out of use. A queue that was terminated can't release the permit, so the permit identifies itself
 * to any queue that asks. At the end of its lease, the permit asks whether its queue runs, so a pause outlasts an outage of the workers.
 */
class DrainedSlot {
  /** Answers the queue's `watch`. */
  readonly answer = oneAtATime(() => this.tell());

  private constructor(
    private readonly queue: string,
    private readonly slot: string,
  ) {}

  /** `undefined` if the holder is not the resource's own queue. */
  static of(holder: Holder | undefined): DrainedSlot | undefined {
    const { resource, slot } = parsePermitId(workflowInfo().workflowId) ?? {};
    const queue = resource && queueId(resource);
    return queue && slot && holder?.workflowId === queue ? new DrainedSlot(queue, slot) : undefined;
  }

  async hasQueue(): Promise<boolean> {
    return (await this.tell()) !== 'not-found';
  }

  private tell() {
    return deliver({ workflowId: this.queue }, drainedSignal, { slot: this.slot, runId: workflowInfo().runId });
  }
}
