import { refuse } from '../../shared/invalid-options';
import type { PermitLoss } from '../../shared/loss';
import type { PermitRef } from '../../shared/protocol';
import { checked, PermitLostError } from '../errors';
import { metrics } from '../metrics';
import { deliver, releaseSignal, renewSignal } from '../signals';
import { takeRevocationReason } from './holder-inbox';
import type { PermitEndWatch } from './permit-end';

/**
 * A held slot, seen by the Workflow that holds it.
 *
 *     held --release()--> releasing --permit Workflow closed--> released
 *      |---permit Workflow closed--> lost
 *      '---detach()--> detached: somebody else adopts it
 *
 * Every signal is pinned to this permit's own run, so a late call never touches the slot's next holder.
 */
export class Permit implements AsyncDisposable {
  readonly resource: string;
  readonly slot: string;
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  readonly workflowId: string;
  /**
   * It orders the fencing tokens of one slot: the later permit has the greater run ID (server 1.27 or later). That is
   * observed of servers, not promised; `docs/fencing.md` says what could invert it. The token is `FencingToken.from(permit)`.
   */
  readonly runId: string;
  /**
   * Resolves when the permit ends before `release()` was called, and never otherwise. `withPermit` watches it for you.
   */
  readonly lost: Promise<PermitLostError>;

  private releasing: Promise<void> | undefined;
  private loss: PermitLostError | undefined;

  /** @internal Made by `Semaphore`. */
  constructor(
    private readonly reference: PermitRef,
    private readonly end: PermitEndWatch,
    /** Whether it lives on when this run ends. */
    private readonly outlivesRun: boolean,
  ) {
    this.resource = reference.resource;
    this.slot = reference.slot;
    this.workflowId = reference.workflowId;
    this.runId = reference.runId;
    this.lost = new Promise((resolve) => {
      void end.how.then((how) => {
        if (this.releasing) return;
        metrics.lost(this.resource, how);
        resolve(this.lossError(how));
      });
    });
  }

  /**
   * Starts the lease anew: the permit now ends one lease from now unless renewed again. It never shortens.
   * @throws PermitLostError when the permit has ended already
   */
  async renew(): Promise<void> {
    const delivery = await deliver(this, renewSignal);
    if (delivery === 'delivered') return;
    // It has ended, or has had all the renewals it can take and is about to. Its end says how.
    if (delivery === 'not-found') this.end.gone();
    throw this.lossError(await this.end.how);
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

  /**
   * Names this permit as plain JSON, for its adopter: the next run (`continueAsNew(permit.ref())`), or another Workflow.
   * It changes nothing; inside `withPermit`, which would release it, use {@link detach}.
   * @throws ApplicationFailure of type `InvalidOptionsError` when it was not acquired with `outlivesRun`: it ends with this run
   */
  ref(): PermitRef {
    checked(() => this.outlivesRun || refuse('permit', 'one acquired with outlivesRun: true', 'one without'));
    return { ...this.reference };
  }

  /**
   * Hands the permit over: `release` does nothing from now on, `lost` stays silent. Renew it first if its lease is to cover
   * the time until the other adopts it. Throws as {@link ref} does.
   */
  detach(): PermitRef {
    const ref = this.ref();
    this.releasing ??= Promise.resolve();
    return ref;
  }

  private async releaseOnce(): Promise<void> {
    // A parent that finishes before its permit has closed would get it terminated instead of released.
    do {
      if ((await deliver(this, releaseSignal)) === 'not-found') this.end.gone();
    } while (!(await this.end.comes()));
  }

  private lossError(how: PermitLoss): PermitLostError {
    this.loss ??= new PermitLostError(this, this.runId, how, takeRevocationReason(this.runId));
    return this.loss;
  }
}
