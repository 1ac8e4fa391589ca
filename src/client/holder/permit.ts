import { HeldPermit, type PermitTerms } from '../../shared/held-permit';
import { noticeMsOf } from '../../shared/lease';
import { PermitLostError } from '../server/errors';
import type { Grant } from './grant';
import { releaseOrWarn } from './release';

/**
 * A held slot, seen from outside Workflows. It renews itself until it is released, detached or lost, unless the semaphore
 * has `renewEvery: false`. Until then it keeps the process alive, as an open connection does.
 *
 *     held --release()--> released
 *      |---detach()--> detached: its adopter renews and releases it
 *      |---a waiter of higher priority asks--> held, `signal` aborts; lost when its grace is over
 *      '---permit Workflow closed | no renewal got through in time--> lost: `signal` aborts
 *
 * `release` resolves when the slot is free. It also resolves at the end of the lease, which nothing renews any more, even if the slot is not
 * free then: when the server can't be reached, or no worker carries out the release, which takes effect when a worker runs. It throws a
 * `NoAnswerError` with `unpolled` if, for 14 seconds and before the end of the lease, no worker polls the task queue of the permit. The server
 * lists a worker that has stopped for up to 90 seconds more: until then, `release` takes it for one that polls. Where `SemaphorePlugin` has
 * run the permits in this process, and its permit worker has ended, it resolves a second after the release has been sent. It throws a
 * `ServiceError` when the server refuses, for example because the caller lacks permission; the lease then ends the permit.
 *
 * @example
 * ```ts
 * const permit = await calls.acquire();
 * for (const order of orders) {
 *   if (permit.signal.aborted) break; // lost: reading the signal checks the clock
 *   await callVendor(order, { signal: permit.signal, token: String(permit.token) });
 * }
 * permit.release();
 * ```
 */
export class Permit extends HeldPermit<Grant, PermitLostError> {
  private readonly stop = new AbortController();
  /** Whether the holder has checked that it still holds the permit. */
  private isLookedAt = false;
  /** The set that contains the permit while it is held. */
  private among: Set<Permit> | undefined;

  /** @internal Made by `SemaphoreClient`. */
  constructor(grant: Grant, terms: Omit<PermitTerms<Grant>, 'outlivesRun'> = {}) {
    super(grant, { ...terms, outlivesRun: true });
    this.take(grant);
  }

  /**
   * Aborts when the permit is lost, or when a waiter of higher priority asks for it and the holder does not give way `atCheckpoints`.
   * Its reason is the {@link PermitLostError}. It aborts at once when the server says that the permit has ended. When no renewal gets
   * through, it aborts a tenth of the lease before the lease's end. Pass the signal to the calls that work under the permit. Code that may
   * sleep past the lease (a blocked event loop, a stopped process) reads `permit.signal.aborted` before each step: reading it checks the
   * clock.
   */
  get signal(): AbortSignal {
    void this.isHeld; // reads the clock
    return this.stop.signal;
  }

  override get isHeld(): boolean {
    this.isLookedAt = true;
    return super.isHeld;
  }

  override get preempted(): Promise<PermitLostError> {
    this.isLookedAt = true;
    return super.preempted;
  }

  /** When the lease ends, as far as this client knows; each renewal moves it. The `signal` aborts a tenth of the lease earlier. */
  get deadline(): Date {
    return this.grant.deadline;
  }

  /** The time from the `signal`'s abort to the lease's end when no renewal gets through, in milliseconds. */
  get noticeMs(): number {
    return noticeMsOf(this.grant.ref.leaseMs);
  }

  /** @internal */
  get leaseMs(): number {
    return this.grant.ref.leaseMs;
  }

  /** @internal Calls `tell` when the permit is released, detached or lost, or exchanged for another run. */
  whenOver(tell: () => void): void {
    this.grant.whenOver(tell);
  }

  /** @internal Whether the permit is held, and its holder has never checked it. */
  get isForgotten(): boolean {
    return !this.isLookedAt && !this.isOver;
  }

  /** @internal The {@link signal}, for internal checks: reading it does not count as a check by the holder. */
  get ownSignal(): AbortSignal {
    return this.stop.signal;
  }

  /** @internal Why the release has not reached the server, if the lease has ended the permit. */
  get releaseError(): unknown {
    return this.grants.map((grant) => grant.releaseError).find((error) => error !== undefined);
  }

  /** @internal From now on, this set contains the permit while it holds anything: of a permit of a key, one half may be lost. */
  standAmong(held: Set<Permit>): void {
    this.among = held;
    this.stand();
  }

  /** @internal Takes the permit from its holder: its signal aborts, and it is released. */
  async giveBack(): Promise<void> {
    this.stop.abort(new PermitLostError(this, this.runId, 'released'));
    await releaseOrWarn(this);
  }

  protected override take(grant: Grant): void {
    super.take(grant);
    this.stand();
  }

  private stand(): void {
    const { grants, among } = this;
    if (!among) return;
    among.add(this);
    const leave = () => this.grants.some(({ isHeld }) => isHeld) || among.delete(this);
    for (const grant of grants) grant.whenOver(leave);
  }

  protected override onLost(error: PermitLostError): void {
    this.stop.abort(error);
  }

  protected override onWanted(error: PermitLostError, mustStop: boolean): void {
    if (mustStop) this.stop.abort(error);
  }

  protected override check<T>(check: () => T): T {
    this.isLookedAt = true;
    return check();
  }
}
