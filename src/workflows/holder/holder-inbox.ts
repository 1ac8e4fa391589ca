import { setHandler } from '@temporalio/workflow';
import type { EndedNotice } from '../../shared/adoption-protocol';
import type { RevokedNotice } from '../../shared/protocol';
import { endedSignal, revokedSignal } from '../signals';

/**
 * Hands what permits signal to their holding Workflow on to the `Permit` concerned. A Workflow may hold several
 * permits, but can have one handler a signal name. (Module state belongs to one Workflow: its sandbox loads modules anew.)
 */
const reasons = new Map<string, string | undefined>();
const ends = new Map<string, (notice: EndedNotice) => void>();

/** Listens for revocations from now on. It must come before the claim, so that none is missed. */
export function listenForRevocations(): void {
  setHandler(revokedSignal, (notice: RevokedNotice) => {
    if (notice?.runId) reasons.set(notice.runId, notice.reason);
  });
}

/** Why the permit of this run was revoked, if its revoker said so. */
export function takeRevocationReason(runId: string): string | undefined {
  const reason = reasons.get(runId);
  reasons.delete(runId);
  return reason;
}

/** Hears when the adopted permit of this run ends. It must come before the adoption, so that no end is missed. */
export function listenForEnd(runId: string, heard: (notice: EndedNotice) => void): void {
  ends.set(runId, heard);
  setHandler(endedSignal, (notice: EndedNotice) => {
    if (!notice?.runId) return;
    if (notice.reason) reasons.set(notice.runId, notice.reason);
    ends.get(notice.runId)?.(notice);
    ends.delete(notice.runId);
  });
}
