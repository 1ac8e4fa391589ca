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

/** The holder of a revoked permit learns of it only after this long, where the server does not tell the reason. */
const REASON_MS = 500;

/** The holder of a terminated permit learns of it only after this long, where the server does not take its word to the queue. */
const TELL_MS = 1_000;

/** A release that nothing has answered fails only after this long, where the server does not tell whether the permit is paused. */
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
      // A stranger has sent it so many signals that it takes no more. A cancel request is a release; and its lease no longer ends it.
      if (!/limit for signal events/.test(String((error as Error).cause ?? error))) throw error;
      if (signal === RELEASE) await this.server.call(() => this.handle.cancel(), withinMs);
      else if (signal !== RENEW) throw error;
      return await this.isOpen(withinMs);
    }
  }

  /** Whether the run has not ended. */
  async isOpen(withinMs?: number): Promise<boolean> {
    try {
      // By a call of its own: the permit was made inside one, whose deadline would count here.
      return isOpen(await this.server.call(() => this.handle.describe(), withinMs));
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }

  /** Whether the run is paused on the server. `false` too when the server does not say so in time: this is only for a message. */
  async isPaused(): Promise<boolean> {
    return await this.server.call(() => this.handle.describe(), PAUSED_MS).then(isPaused, () => false);
  }

  /** Waits for the run's end, however long it takes, also while connections break. @throws the signal's reason */
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

  /** A permit that was terminated, or that the server ended, could not. Where this fails too, the queue asks after a while. */
  private async tellQueue(): Promise<void> {
    const { workflowId, runId } = this.ref;
    const { resource = '', slot = '' } = parsePermitId(workflowId) ?? {};
    const queue = this.server.client.workflow.getHandle(queueId(resource));
    await this.server.call(() => queue.signal(CLOSING, { slot, runId }), TELL_MS).catch(() => undefined);
  }

  /**
   * Waits until a waiter of higher priority asks for the permit, however long it takes, also while connections break. `false`: the
   * permit has ended first, or does not tell. All that hold it wait for one and the same update.
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
