import {
  ChildWorkflowFailure,
  type ChildWorkflowHandle,
  TerminatedFailure,
  TimeoutFailure,
} from '@temporalio/workflow';
import type { PermitLoss } from '../shared/loss';
import type { PermitAddress } from '../shared/permit-id';
import { PermitLostError } from './errors';
import { takeRevocationReason } from './holder-inbox';
import type { permitSlotWorkflow } from './permit-slot';
import { releaseSignal, renewSignal, tell } from './signals';

/**
 * A held slot, seen by the Workflow that holds it.
 *
 *     held --release()--> releasing --permit Workflow closed--> released
 *       '---permit Workflow closed--> lost
 *
 * Every signal is pinned to this permit's own run, so a late call never touches the slot's next holder.
 */
export class Permit implements AsyncDisposable {
  readonly resource: string;
  readonly slot: string;
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  readonly workflowId: string;
  /** The fencing token: of two permits of one slot, the later has the greater run ID (server 1.27 or later). */
  readonly runId: string;
  /**
   * Resolves when the permit ends before `release()` was called, and never otherwise. `withPermit` watches it for you.
   */
  readonly lost: Promise<PermitLostError>;

  private readonly ended: Promise<PermitLoss>;
  private releasing: Promise<void> | undefined;

  /** @internal Made by `Semaphore`. */
  constructor({ resource, slot }: PermitAddress, child: ChildWorkflowHandle<typeof permitSlotWorkflow>) {
    this.resource = resource;
    this.slot = slot;
    this.workflowId = child.workflowId;
    this.runId = child.firstExecutionRunId;
    this.ended = child.result().catch(lossOf);
    this.lost = new Promise((resolve) => {
      void this.ended.then((how) => {
        if (!this.releasing) resolve(this.lossError(how));
      });
    });
  }

  /**
   * Starts the lease anew: the permit now ends one lease from now unless renewed again. It never shortens.
   * @throws PermitLostError when the permit has ended already
   */
  async renew(): Promise<void> {
    if ((await tell(this, renewSignal)) === 'delivered') return;
    // It has ended, or has had all the renewals it can take and is about to. Its end says how.
    throw this.lossError(await this.ended);
  }

  /**
   * Gives the slot back, and resolves when it is free. Idempotent: later calls share the first one's promise. A permit
   * that has ended already is left alone. Cancelling the caller does not stop a release.
   */
  release(): Promise<void> {
    this.releasing ??= this.releaseOnce();
    return this.releasing;
  }

  /** `await using permit = await semaphore.acquire()` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  private async releaseOnce(): Promise<void> {
    await tell(this, releaseSignal);
    // A parent that finishes before its permit has closed would get it terminated instead of released.
    await this.ended;
  }

  private lossError(how: PermitLoss): PermitLostError {
    return new PermitLostError(this, this.runId, how, takeRevocationReason(this.runId));
  }
}

function lossOf(error: unknown): PermitLoss {
  const cause = error instanceof ChildWorkflowFailure ? error.cause : error;
  if (cause instanceof TerminatedFailure) return 'terminated';
  if (cause instanceof TimeoutFailure) return 'timed-out';
  return 'failed';
}
