import { ChildWorkflowFailure, condition, sleep, TerminatedFailure, TimeoutFailure } from '@temporalio/workflow';
import { type BackoffPolicy, backoffMs } from '../../shared/backoff';
import type { PermitLoss } from '../../shared/loss';
import { queueId } from '../../shared/permit-id';
import type { PermitRef } from '../../shared/protocol';
import { readEnd } from '../../shared/wire-input';
import type { PermitChild } from '../permit/claim';
import {
  closingSignal,
  deliver,
  endedSignal,
  hear,
  preemptedSignal,
  release,
  revokedSignal,
  shielded,
} from '../signals';

/**
 * Passes the signals of permits to their holding Workflow on to the `Permit` concerned. A Workflow may hold several permits, but
 * has one handler for each signal name. (Module state belongs to one Workflow: the sandbox loads the modules again for each.)
 */
const reasons = new Map<string, string | undefined>();
const ends = new Map<string, (outcome: PermitLoss) => void>();
/** By run; `told` if the pre-emption came before its permit listens. */
const preemptions = new Map<string, 'told' | (() => void)>();

/** Listens for revocations from now on. Call it before the claim, so that none is missed. */
export function listenForRevocations(): void {
  hear(revokedSignal, (notice) => {
    const { runId, reason } = readEnd(notice);
    if (runId) reasons.set(runId, reason);
  });
}

/** The reason why the permit of this run was revoked, if the operator gave one. */
export function takeRevocationReason(runId: string): string | undefined {
  const reason = reasons.get(runId);
  reasons.delete(runId);
  return reason;
}

/** Listens for pre-emptions from now on. Call it before the claim, so that none is missed. */
export function listenForPreemptions(): void {
  hear(preemptedSignal, (notice) => {
    const { runId } = readEnd(notice);
    if (!runId) return;
    const heard = preemptions.get(runId);
    preemptions.set(runId, 'told');
    if (typeof heard === 'function') heard();
  });
}

/** Calls `heard` when a waiter of higher priority has asked for the permit of this run. */
export function hearPreemption(runId: string, heard: () => void): void {
  listenForPreemptions();
  if (preemptions.get(runId) === 'told') heard();
  else preemptions.set(runId, heard);
}

/** Calls `heard` when the adopted permit of this run ends. Call it before the adoption, so that no end is missed. */
function listenForEnd(runId: string, heard: (outcome: PermitLoss) => void): void {
  ends.set(runId, heard);
  hear(endedSignal, (notice) => {
    const { runId, reason, outcome } = readEnd(notice);
    if (!runId) return;
    if (reason) reasons.set(runId, reason);
    ends.get(runId)?.(outcome);
    ends.delete(runId);
  });
}

/** Notifies the holder of a permit how and when the permit ends. */
export interface PermitEndWatch {
  readonly how: Promise<PermitLoss>;
  /** The server reports that the run has ended: a notice that has not come yet will not come any more. */
  gone(): void;
  /** Waits, after a release, until the run has ended, so that its slot is free, and its queue knows. Cancelling the caller does not stop it. */
  closed(): Promise<void>;
}

/** All notices of this Workflow to queues: those that are under way, and those that have arrived. */
const closings = new Set<Promise<unknown>>();

/** Waits until the queues know of the ends that this Workflow was notified of. The server drops a notice whose sender ends before. */
export async function queuesKnow(): Promise<void> {
  await Promise.all(closings);
}

/**
 * A permit's first holder is its parent, which the server notifies of the end. A permit that was terminated, or that the server ended at
 * `maxHold`, could not notify its queue. So its holder does, and ends the hold only when the queue knows. The work under the permit does not
 * wait for that: a busy queue may take ten seconds.
 */
export function endOfChild(child: PermitChild, { resource, slot, runId }: PermitRef): PermitEndWatch {
  const how = child.result().catch((error: unknown) => {
    const loss = lossOf(error);
    if (loss !== 'failed') closings.add(deliver({ workflowId: queueId(resource) }, closingSignal, { slot, runId }));
    return loss;
  });
  return {
    how,
    gone: () => undefined,
    closed: async () => {
      await how;
      await queuesKnow();
    },
  };
}

/** How long an adopter waits for the end notice before it asks whether the permit still runs. */
const END_NOTICE_MS = 10_000;

/**
 * A permit ends in the Workflow Task after its notice: usually the first question finds it gone. But a permit that is paused on the server, or
 * that no worker runs, may stay open for days, and each question adds to both histories.
 */
const CLOSING: BackoffPolicy = { baseMs: 50, maxMs: 600_000, factor: 2, jitter: 0 };

/** A permit notifies its adopter when it is about to end. A terminated permit can't: then a renewal finds it gone. */
export function endOfAdopted(permit: PermitRef): PermitEndWatch {
  let told = false;
  let isGone = false;
  let end: (how: PermitLoss) => void = () => undefined;
  const how = new Promise<PermitLoss>((resolve) => {
    end = (loss) => {
      told = true;
      resolve(loss);
    };
  });
  listenForEnd(permit.runId, end);
  const gone = () => {
    isGone = true;
    end('unknown');
  };
  const closed = async () => {
    await condition(() => told, END_NOTICE_MS);
    for (let asked = 0; !isGone; asked++) {
      if ((await release(permit)) === 'not-found') gone();
      else await sleep(backoffMs(asked, 0, CLOSING));
    }
  };
  return { how, gone, closed: () => shielded(closed) };
}

function lossOf(error: unknown): PermitLoss {
  const cause = error instanceof ChildWorkflowFailure ? error.cause : error;
  if (cause instanceof TerminatedFailure) return 'terminated';
  if (cause instanceof TimeoutFailure) return 'timed-out';
  return 'failed';
}
