import type { Grant as AnyGrant } from '../../shared/held-permit';
import type { Lease } from '../../shared/lease';
import { isEndByTime, type PermitLoss } from '../../shared/loss';
import type { PermitRef } from '../../shared/protocol';
import { PermitLostError } from '../errors';
import { metrics } from '../metrics';
import { deliver, release, renewSignal } from '../signals';
import { hearPreemption, type PermitEndWatch, takeRevocationReason } from './holder-inbox';

type Watcher = Parameters<AnyGrant<PermitLostError>['watch']>[0];

/**
 * One permit's run, held by this Workflow. Every signal is pinned to the run, so a late one never touches the slot's next holder.
 *
 *     held --release()--> releasing --permit Workflow closed--> released
 *       |---permit Workflow closed--> lost
 *       '---detach()--> detached: another holder adopts it
 */
export class Grant implements AnyGrant<PermitLostError> {
  loss: PermitLostError | undefined;
  isWanted = false;
  private watcher: Watcher | undefined;
  private releasing: Promise<void> | undefined;
  private isDetached = false;
  /** Whether the permit was held, by our own clock, when the work under it was done. */
  private wasHeldToEnd = false;
  /** Whether our release found no such run. */
  private wasGone = false;
  /** Whether the pace keeps the slot for a while after our release. */
  private isPaced = false;

  constructor(
    readonly ref: PermitRef,
    private readonly end: PermitEndWatch,
    private readonly lease: Lease,
  ) {
    if (ref.preemptible) hearPreemption(ref.runId, () => this.want());
    void end.how.then((how) => {
      if (this.releasing || this.isDetached) return;
      metrics.lost(ref.resource, how);
      const error = this.lossError(how);
      if (how === 'preempted') this.want();
      this.watcher?.lost(error);
    });
  }

  get isHeld(): boolean {
    return !this.releasing && !this.isDetached && !this.loss;
  }

  watch(watcher: Watcher): void {
    this.watcher = watcher;
    if (this.loss) watcher.lost(this.loss);
    else if (this.isWanted) watcher.wanted(this.preemption());
  }

  async renew(leaseMs?: number): Promise<Date> {
    const sentMs = Date.now();
    const delivery = await (leaseMs === undefined
      ? deliver(this.ref, renewSignal)
      : deliver(this.ref, renewSignal, { leaseMs }));
    // A permit that has taken all the signals that it can is not ended by its lease any more.
    if (delivery !== 'not-found') {
      this.lease.renewed(sentMs, leaseMs);
      return new Date(Date.now() + this.lease.leftMs);
    }
    this.end.gone();
    const how = await this.end.how;
    // Then it is for `confirmLoss` to say whether the permit ended before the release.
    if (this.releasing || this.isDetached) throw this.notHeld();
    throw this.lossError(how);
  }

  /** Cancelling the caller does not stop it. */
  release(): Promise<void> {
    if (this.isDetached) return Promise.resolve();
    this.releasing ??= this.releaseOnce();
    return this.releasing;
  }

  detach(): void {
    this.isDetached = true;
  }

  notHeld(): PermitLostError {
    return this.loss ?? new PermitLostError(this.ref, this.ref.runId, 'released');
  }

  /**
   * The end and the result of a function can arrive in one Workflow Task. The server says which came first. A permit whose pace is not
   * over may end long after its release.
   */
  async confirmLoss(): Promise<PermitLostError | undefined> {
    if (this.loss || this.isDetached) return this.loss;
    if (this.isPaced && !this.wasGone) return undefined;
    const how = await this.end.how;
    return (how === 'released' && !this.wasGone) || this.isAfterWork(how) ? undefined : this.lossError(how);
  }

  /** Whether the work was done in time, and only the release came too late. */
  private isAfterWork(how: PermitLoss): boolean {
    return this.wasHeldToEnd && isEndByTime(how);
  }

  private async releaseOnce(): Promise<void> {
    this.wasHeldToEnd = !this.loss && this.lease.leftMs > 0;
    this.isPaced = this.lease.heldMs < (this.ref.paceMs ?? 0);
    this.wasGone = (await release(this.ref)) === 'not-found';
    if (this.wasGone) this.end.gone();
    // The slot stays taken for the rest of its pace, and we need not wait for that. If this Workflow ends meanwhile, the permit is only
    // released again. But of a permit that was gone already, the queue may have to hear from us.
    if (this.isPaced && !this.wasGone) return;
    // The next acquirer, maybe this Workflow itself, then finds the slot free.
    await this.end.closed();
  }

  private want(): void {
    if (this.releasing || this.isWanted) return;
    this.isWanted = true;
    this.watcher?.wanted(this.preemption());
  }

  private preemption(): PermitLostError {
    return new PermitLostError(this.ref, this.ref.runId, 'preempted');
  }

  private lossError(how: PermitLoss): PermitLostError {
    this.loss ??= new PermitLostError(this.ref, this.ref.runId, how, takeRevocationReason(this.ref.runId));
    return this.loss;
  }
}
