import type { PermitLoss } from '../../shared/loss';
import { readEnd } from '../../shared/wire-input';
import { endedSignal, hear, preemptedSignal, revokedSignal } from '../signals';

/**
 * Passes the signals of permits to their holding Workflow on to the `Permit` concerned. A Workflow may hold several permits, but
 * has one handler for each signal name. (Module state belongs to one Workflow: the sandbox loads modules anew for each.)
 */
const reasons = new Map<string, string | undefined>();
const ends = new Map<string, (outcome: PermitLoss) => void>();
/** By run; `told` before its permit listens. */
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
export function listenForEnd(runId: string, heard: (outcome: PermitLoss) => void): void {
  ends.set(runId, heard);
  hear(endedSignal, (notice) => {
    const { runId, reason, outcome } = readEnd(notice);
    if (!runId) return;
    if (reason) reasons.set(runId, reason);
    ends.get(runId)?.(outcome);
    ends.delete(runId);
  });
}
