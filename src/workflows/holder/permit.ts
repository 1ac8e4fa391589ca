import type { Duration } from '@temporalio/common';
import { refuse } from '../../shared/invalid-options';
import type { Lease } from '../../shared/lease';
import type { PermitLoss } from '../../shared/loss';
import { durationMs } from '../../shared/options';
import type { PermitRef } from '../../shared/protocol';
import { YieldingPermit } from '../../shared/yielding-permit';
import { checked, PermitLostError, PermitPreemptedError } from '../errors';
import { metrics } from '../metrics';
import { deliver, release, renewSignal } from '../signals';
import { hearPreemption, takeRevocationReason } from './holder-inbox';
import type { PermitEndWatch } from './permit-end';

interface PermitOptions {
  /** Whether the permit goes on when this run ends. */
  outlivesRun: boolean;
  /** Whether it gives way at its holder's checkpoints only. */
  atCheckpoints?: boolean;
  /** Lines up again with the old place. */
  again?: () => Promise<Permit>;
}

/**
 * A held slot, seen by the Workflow that holds it.
 *
 *     held --release()--> releasing --permit Workflow closed--> released
 *      |---permit Workflow closed--> lost
 *      |---a waiter of higher priority asks--> held, `preempted` resolves; lost when its grace is over
 *      '---detach()--> detached: somebody else adopts it
 *
 * Every signal is pinned to this permit's own run, so a late call never touches the slot's next holder.
 */
export class Permit extends YieldingPermit<Permit> {
  readonly resource: string;
  readonly slot: string;
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  readonly workflowId: string;
  /**
   * It orders the fencing tokens of one slot: the later permit has the greater run ID (server 1.27 or later). Servers do so in
   * practice; Temporal does not guarantee it, and `docs/fencing.md` says what could invert it. `FencingToken.from(permit)` is
   * the token.
   */
  readonly runId: string;
  /**
   * Resolves when the permit ends before `release()`, and never otherwise. `withPermit` watches it for you.
   */
  readonly lost: Promise<PermitLostError>;

  /**
   * Resolves when a waiter of higher priority has asked for the permit, which then ends with its grace at the latest. Never
   * otherwise. `withPermit` watches it for you.
   */
  readonly preempted: Promise<PermitPreemptedError>;
  /** @internal Gives way at its holder's checkpoints only. */
  readonly atCheckpoints: boolean;

  private releasing: Promise<void> | undefined;
  /** Our release found no such run. */
  private wasGone = false;
  private detached = false;
  private loss: PermitLostError | undefined;
  private preemption: PermitPreemptedError | undefined;
  /** Whether the permit goes on when this run ends. */
  private readonly outlivesRun: boolean;

  /** @internal Made by `Semaphore`. */
  constructor(
    private readonly reference: PermitRef,
    private readonly end: PermitEndWatch,
    private readonly lease: Lease,
    { outlivesRun, atCheckpoints = false, again }: PermitOptions,
  ) {
    super(again);
    this.outlivesRun = outlivesRun;
    this.atCheckpoints = atCheckpoints;
    this.resource = reference.resource;
    this.slot = reference.slot;
    this.workflowId = reference.workflowId;
    this.runId = reference.runId;
    this.preempted = new Promise((resolve) => {
      if (reference.preemptible) hearPreemption(this.runId, () => !this.releasing && resolve(this.preemptionError()));
    });
    this.lost = new Promise((resolve) => {
      void end.how.then((how) => {
        if (this.releasing) return;
        metrics.lost(this.resource, how);
        resolve(this.lossError(how));
      });
    });
  }

  /**
   * Renews the lease: without another renewal, the permit ends one lease from now.
   * @param lease how long from now, this once: longer for a time in which nobody will renew. Default: the permit's own
   * @returns when the lease ends now, as far as this Workflow knows: never earlier than it would have, and never later than
   * `maxHold`, whatever was asked for. (An adopted permit does not tell its `maxHold`.)
   * @throws PermitLostError when the permit has ended already
   * @throws ApplicationFailure of type `InvalidOptionsError`
   */
  async renew(lease?: Duration): Promise<Date> {
    const leaseMs = checked(() => durationMs('lease', lease, 1));
    const sentMs = Date.now();
    const delivery = await (leaseMs === undefined
      ? deliver(this, renewSignal)
      : deliver(this, renewSignal, { leaseMs }));
    if (delivery === 'delivered') {
      this.lease.renewed(sentMs, leaseMs);
      return new Date(Date.now() + this.lease.leftMs);
    }
    // The permit has ended; or it has taken all the signals that it can, and is about to end. Its end says how.
    if (delivery === 'not-found') this.end.gone();
    throw this.lossError(await this.end.how);
  }

  /**
   * Names this permit as plain JSON, for its adopter: the next run (`continueAsNew(permit.ref())`), or another Workflow.
   * It changes nothing. Inside `withPermit`, which would release the permit, use {@link detach}.
   * @throws ApplicationFailure of type `InvalidOptionsError` when it was acquired without `outlivesRun`: it ends with this run
   */
  ref(): PermitRef {
    checked(() => this.outlivesRun || refuse('permit', 'one acquired with outlivesRun: true', 'one without'));
    return { ...this.reference };
  }

  /**
   * Hands the permit over: from now on `release` does nothing, and `lost` never resolves. Renew it first if its lease must
   * last until the new holder adopts it. Throws as {@link ref} does.
   */
  detach(): PermitRef {
    const ref = this.ref();
    this.releasing ??= Promise.resolve();
    this.detached = true;
    return ref;
  }

  /** @internal Neither released, handed over nor known to be lost. */
  get isHeld(): boolean {
    return !this.releasing && !this.loss;
  }

  /** @internal How it was lost before its release, if it was. */
  get heardLoss(): PermitLostError | undefined {
    return this.loss;
  }

  /** @internal A waiter of higher priority has asked for it. */
  override get isWanted(): boolean {
    return this.preemption !== undefined;
  }

  /**
   * @internal The end and the result of a function may come in one Workflow Task, and the function may be through before `lost` is:
   * so the server says which was first. Of a permit that was handed over, its adopter hears. A paced one may end long after.
   */
  override async lateLoss(): Promise<PermitLostError | undefined> {
    if (this.detached || (this.reference.paceMs !== undefined && !this.wasGone)) return undefined;
    const how = await this.end.how;
    return how === 'released' && !this.wasGone ? undefined : this.lossError(how);
  }

  /** Cancelling the caller does not stop it. */
  protected override giveUp(): Promise<void> {
    this.releasing ??= this.releaseOnce();
    return this.releasing;
  }

  protected override throwLost(): never {
    throw this.loss ?? this.lossError('released');
  }

  protected override throwNoPlace(): never {
    return checked(() => refuse('permit', 'one that can line up again', 'one of a set, or an adopted one'));
  }

  private async releaseOnce(): Promise<void> {
    this.wasGone = (await release(this)) === 'not-found';
    if (this.wasGone) this.end.gone();
    // The slot stays taken for its pace, which is not for us to wait for. When we end, that is at most another release.
    if (this.reference.paceMs !== undefined) return;
    // The next to acquire finds the slot free. That may be this Workflow itself.
    await this.end.closed();
  }

  private lossError(how: PermitLoss): PermitLostError {
    if (how === 'preempted') this.loss ??= this.preemptionError();
    this.loss ??= new PermitLostError(this, this.runId, how, takeRevocationReason(this.runId));
    return this.loss;
  }

  private preemptionError(): PermitPreemptedError {
    this.preemption ??= new PermitPreemptedError(this, this.runId);
    return this.preemption;
  }
}
