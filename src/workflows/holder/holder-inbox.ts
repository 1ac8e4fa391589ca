import { setHandler } from '@temporalio/workflow';
import type { EndedNotice } from '../../shared/adoption-protocol';
import type { RevokedNotice } from '../../shared/protocol';
import { endedSignal, revokedSignal } from '../signals';

/**
 * Passes the signals of permits to their holding Workflow on to the `Permit` concerned. A Workflow may hold several permits, but
 * has one handler for each signal name. (Module state belongs to one Workflow: the sandbox loads modules anew for each.)
 */
const reasons = new Map<string, string | undefined>();
const ends = new Map<string, (notice: EndedNotice) => void>();

/** Listens for revocations from now on. Call it before the claim, so that none is missed. */
export function listenForRevocations(): void {
  setHandler(revokedSignal, (notice: RevokedNotice) => {
    if (notice?.runId) reasons.set(notice.runId, notice.reason);
  });
}

/** The reason why the permit of this run was revoked, if the operator gave one. */
export function takeRevocationReason(runId: string): string | undefined {
  const reason = reasons.get(runId);
  reasons.delete(runId);
  return reason;
}

/** Calls `heard` when the adopted permit of this run ends. Call it before the adoption, so that no end is missed. */
export function listenForEnd(runId: string, heard: (notice: EndedNotice) => void): void {
  ends.set(runId, heard);
  setHandler(endedSignal, (notice: EndedNotice) => {
    if (!notice?.runId) return;
    if (notice.reason) reasons.set(notice.runId, notice.reason);
    ends.get(notice.runId)?.(notice);
    ends.delete(notice.runId);
  });
}
