import {
  isGrpcServiceError,
  TerminatedFailure,
  TimeoutFailure,
  WorkflowFailedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import type { PermitLoss } from '../../shared/loss';
import { isOpen, isPaused } from '../../shared/open';
import { parsePermitId, queueId } from '../../shared/permit-id';
import type { AdoptInput } from '../../shared/protocol';
import {
  CLOSING,
  type PermitMemo,
  type PermitOutcome,
  type PermitRef,
  RELEASE,
  RENEW,
  type RenewInput,
  type RevokeInput,
  UNTIL_PREEMPTED,
} from '../../shared/protocol';
import { readReason } from '../../shared/wire-input';
import { hasJustMoved } from './grpc-errors';
import type { Server } from './server';

/** How a permit ended. */
export interface PermitEnd {
  how: PermitLoss;
  reason?: string;
}

/** How long the holder of a revoked permit is kept waiting for the reason, if the server does not return it. */
const REASON_MS = 500;

/** How long the holder of a terminated permit is kept waiting for its message to the queue, if the server does not take the message. */
const TELL_MS = 1_000;

/** How long a release without an answer waits before it fails, if the server does not say whether the permit is paused. */
const PAUSED_MS = 1_000;

/** A permit's run at the server. Every call is pinned to the run, so none touches the slot's next holder. */
export class PermitRun {
  private readonly handle: WorkflowHandle<() => Promise<PermitOutcome>>;

  constructor(
    readonly server: Server,
    private readonly ref: Pick<PermitRef, 'workflowId' | 'runId'>,
  ) {
    this.handle = server.client.workflow.getHandle(ref.workflowId, ref.runId);
  }

  /** Sends a signal once, within that time. `false`: the run has ended. */
  async send(signal: string, withinMs?: number, ...args: [(AdoptInput | RenewInput | RevokeInput)?]): Promise<boolean> {
    try {
      await this.server.call(() => this.handle.signal(signal, ...args), withinMs);
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      if (!isGrpcServiceError(error) && !isGrpcServiceError((error as Error).cause)) throw error;
      // A foreign client has sent the permit so many signals that it takes no more, and so its lease no longer ends it. A cancel request
      // releases it.
      if (!/limit for signal events/.test(String((error as Error).cause ?? error))) throw error;
      if (signal === RELEASE) await this.server.call(() => this.handle.cancel(), withinMs);
      else if (signal !== RENEW) throw error;
      return await this.isOpen(withinMs);
    }
  }

  /** Whether the run has not ended. */
  async isOpen(withinMs?: number): Promise<boolean> {
    try {
      return isOpen(await this.server.call(() => this.handle.describe(), withinMs));
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }

  /** Whether the run is paused on the server. Also `false` if the server does not answer in time: this is only for a message. */
  async isPaused(): Promise<boolean> {
    return await this.server.call(() => this.handle.describe(), PAUSED_MS).then(isPaused, () => false);
  }

  /** Waits for the run's end, however long it takes, even if connections break. @throws the signal's reason */
  async end(signal: AbortSignal): Promise<PermitEnd> {
    const how = await this.server.poll<PermitLoss>(
      () => this.handle.result(),
      signal,
      (error) => {
        if (error instanceof WorkflowFailedError) return lossOf(error);
        return error instanceof WorkflowNotFoundError ? 'not-found' : undefined;
      },
    );
    if (how === 'terminated' || how === 'timed-out') await this.tellQueue();
    return how === 'revoked' ? { how, reason: await this.revocationReason() } : { how };
  }

  /** Tells the queue of an end that the permit could not report: it was terminated, or the server ended it. If this fails, the queue's probe finds out. */
  private async tellQueue(): Promise<void> {
    const { workflowId, runId } = this.ref;
    const { resource = '', slot = '' } = parsePermitId(workflowId) ?? {};
    const queue = this.server.client.workflow.getHandle(queueId(resource));
    await this.server.call(() => queue.signal(CLOSING, { slot, runId }), TELL_MS).catch(() => undefined);
  }

  /**
   * Waits until a waiter of higher priority asks for the permit, however long it takes, even if connections break. `false`: the
   * permit has ended first, or does not report it. All processes that hold the permit wait for one and the same update.
   * @throws the signal's reason
   */
  async preemption(signal: AbortSignal): Promise<boolean> {
    const ask = async () => {
      await this.handle.executeUpdate<void, []>(UNTIL_PREEMPTED, { updateId: UNTIL_PREEMPTED });
      return true;
    };
    const isOver = (error: unknown) =>
      error instanceof WorkflowNotFoundError || (error instanceof WorkflowUpdateFailedError && !hasJustMoved(error))
        ? false
        : undefined;
    return await this.server.poll(ask, signal, isOver);
  }

  private async revocationReason(): Promise<string | undefined> {
    try {
      const soon = AbortSignal.timeout(REASON_MS);
      const { memo } = await this.server.call(() => this.handle.describe(), REASON_MS, soon);
      return readReason({ reason: (memo as Partial<PermitMemo> | undefined)?.revokedBecause });
    } catch {
      return undefined; // knowing that it was revoked counts more
    }
  }
}

function lossOf({ cause }: WorkflowFailedError): PermitLoss {
  if (cause instanceof TerminatedFailure) return 'terminated';
  if (cause instanceof TimeoutFailure) return 'timed-out';
  return 'failed';
}
