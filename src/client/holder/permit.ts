import type { Duration } from '@temporalio/common';
import { refuse } from '../../shared/invalid-options';
import type { Lease } from '../../shared/lease';
import { durationMs } from '../../shared/options';
import { type PermitRef, RELEASE, RENEW } from '../../shared/protocol';
import { YieldingPermit } from '../../shared/yielding-permit';
import { monotonicMs, pause } from '../clock';
import { NoAnswerError, PermitLostError, PermitPreemptedError } from '../errors';
import { ABSENT_AFTER_MS, type Pollers } from '../pollers';
import { isTransient, retryDelayMs } from '../server';
import type { PermitEnd, PermitRun } from './permit-run';

interface PlaceOptions {
  /** Lines up again with the old place. */
  again?: () => Promise<Permit>;
  /** Whose permit it is. That of the key stands behind it. */
  key?: string;
  /** Whether it gives way at its holder's checkpoints only. */
  atCheckpoints?: boolean;
}

/**
 * A held slot, seen from outside Workflows. It renews itself until it is released, detached or lost, unless the semaphore
 * has `renewEvery: false`. Until then it keeps the process alive, as an open connection does. Compare etcd's `Session` and
 * Redisson's watchdog.
 *
 *     held --release()--> releasing --permit Workflow closed--> released
 *      |---detach()--> detached: somebody else renews and releases it
 *      |---a waiter of higher priority asks--> held, `signal` aborts; lost when its grace is over
 *      '---permit Workflow closed | no renewal got through in time--> lost: `signal` aborts
 *
 * Every call is pinned to this permit's own run, so a late one never touches the slot's next holder.
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
   * Resolves when a waiter of higher priority has asked for the permit, which then ends with its grace at the latest. Never
   * otherwise. `signal` aborts then, unless the holder gives way `atCheckpoints`.
   */
  readonly preempted: Promise<PermitPreemptedError>;

  private readonly loss = new AbortController();
  /** Resolves `preempted`. */
  private tellPreempted: (error: PermitPreemptedError) => void = () => undefined;
  private preemption: PermitPreemptedError | undefined;
  private lossError: PermitLostError | undefined;
  /** Aborted when the permit is no longer ours to keep, which stops the renewals. */
  private readonly keeping = new AbortController();
  /** Aborted when nobody needs to know the permit's end any more. */
  private readonly watching = new AbortController();
  private readonly ended: Promise<PermitEnd | undefined>;
  private renewing: Promise<boolean> | undefined;
  private releasing: Promise<void> | undefined;
  /** The error of the last renewal, if it has failed. */
  private lastError: unknown;

  /** @internal Made by `SemaphoreClient`. */
  constructor(
    private readonly run: PermitRun,
    private readonly reference: PermitRef,
    private readonly lease: Lease,
    renewEveryMs: number | false,
    private readonly pollers: Pollers,
    private readonly place: PlaceOptions = {},
  ) {
    super(place.again);
    this.preempted = new Promise((resolve) => {
      this.tellPreempted = resolve;
    });
    this.resource = reference.resource;
    this.slot = reference.slot;
    this.workflowId = reference.workflowId;
    this.runId = reference.runId;
    this.ended = this.watchEnd();
    void this.watchLease();
    if (renewEveryMs !== false) void this.renewEvery(renewEveryMs);
    if (reference.preemptible) void this.watchPreemption();
  }

  /**
   * Aborts when the permit is lost, or when a waiter of higher priority asks for it; its reason is the {@link PermitLostError}, or
   * the `PermitPreemptedError`. It aborts at once when the server says that the
   * permit has ended. When no renewal gets through, it aborts a tenth of the lease before the lease's end. Hand it to whatever
   * works under the permit. Code that may sleep past the lease (a blocked event loop, a stopped process) reads
   * `permit.signal.aborted` before each step: reading it checks the clock.
   */
  get signal(): AbortSignal {
    this.looksHeld();
    return this.loss.signal;
  }

  /** When the lease ends, as far as this client knows; each renewal moves it. The `signal` aborts a tenth of the lease earlier. */
  get deadline(): Date {
    return new Date(Date.now() + this.lease.leftMs);
  }

  /** The time from the `signal`'s abort to the lease's end when no renewal gets through, in milliseconds. */
  get noticeMs(): number {
    return this.lease.noticeMs;
  }

  /**
   * Renews the lease: without another renewal, the permit ends one lease from now. This retries failures until the permit is
   * lost.
   * @param lease how long from now, this once: longer for a time in which this process will not renew. Default: the permit's own
   * @returns when the lease ends now, as {@link deadline}: never earlier than it would have, and never later than `maxHold`, whatever
   * was asked for
   * @throws PermitLostError when the permit has ended, was released or detached, or no renewal got through in time
   * @throws InvalidOptionsError
   */
  async renew(lease?: Duration): Promise<Date> {
    const leaseMs = durationMs('lease', lease, 1);
    if (!(await (leaseMs === undefined ? this.renewed() : this.renewOnce(leaseMs)))) throw this.lost();
    return this.deadline;
  }

  /**
   * Releases the slot, and resolves when it is free. When the server can't be reached, it resolves by the end of the lease,
   * which nothing renews any more. Idempotent. It does nothing to a permit that was lost or detached. After a
   * {@link checkpoint} that gave the permit up, it releases the new one.
   * @throws NoAnswerError with `unpolled` when the slot is not free after 14 seconds and nobody polls its task queue. The
   * release has been sent, and takes effect when a worker runs
   * @throws ServiceError when the server refuses, for example because the caller lacks permission; the lease then ends the permit
   */
  override release(): Promise<void> {
    return super.release();
  }

  /**
   * Names this permit as plain JSON. It changes nothing: this object still renews and releases.
   * @throws InvalidOptionsError when it was acquired with a `key`: nobody could adopt the permit of the key behind it
   */
  ref(): PermitRef {
    const { key } = this.place;
    if (key !== undefined) refuse('permit', 'one without a key, to be handed over', `one with the key "${key}"`);
    return { ...this.reference };
  }

  /**
   * Hands the permit over: from now on, this object does not renew it, release it, or learn of its loss. The new holder must
   * adopt the reference before the lease ends (in a Workflow, by `Semaphore.adopt`).
   * @throws PermitLostError when this object no longer holds the permit
   * @throws InvalidOptionsError as {@link ref} does
   */
  detach(): PermitRef {
    const ref = this.ref();
    if (!this.looksHeld()) throw this.lost();
    this.keeping.abort();
    this.watching.abort();
    return ref;
  }

  /** @internal A waiter of higher priority has asked for it. */
  override get isWanted(): boolean {
    return this.preemption !== undefined;
  }

  /** @internal How it was lost before its release, if it was. */
  get heardLoss(): PermitLostError | undefined {
    this.looksHeld();
    return this.lossError;
  }

  /** @internal The same; or why `signal` has aborted. */
  get toldLoss(): PermitLostError | undefined {
    return this.heardLoss ?? (this.loss.signal.aborted ? this.preemption : undefined);
  }

  override async lateLoss(): Promise<PermitLostError | undefined> {
    const end = await this.ended;
    return end && end.how !== 'released' ? (this.lossError ?? this.errorOf(end)) : undefined;
  }

  /** @internal Calls `tell` when the permit is lost: not yet when its holder was told to give way, who may do so in time. */
  whenLost(tell: (error: PermitLostError) => void): void {
    const { signal } = this.keeping;
    const tellLoss = () => this.lossError && tell(this.lossError);
    if (signal.aborted) tellLoss();
    else signal.addEventListener('abort', tellLoss, { once: true });
  }

  protected override giveUp(): Promise<void> {
    this.releasing ??= this.releaseOnce();
    return this.releasing;
  }

  protected override throwLost(): never {
    throw this.lost();
  }

  protected override throwNoPlace(): never {
    refuse('permit', 'one that can line up again', 'one of a set, or an adopted one');
  }

  /** @internal Neither released, handed over nor lost. */
  override get isHeld(): boolean {
    return this.looksHeld();
  }

  /** Checks the clock too: the lease may have ended since anybody looked. */
  private looksHeld(): boolean {
    if (this.keeping.signal.aborted) return false;
    if (this.lease.safeMs > 0) return true;
    this.lose({ how: this.lease.isLongest ? 'timed-out' : 'lease-expired' });
    return false;
  }

  private lose(end: PermitEnd): void {
    if (this.keeping.signal.aborted) return;
    const error = this.errorOf(end);
    this.lossError = error;
    this.keeping.abort();
    if (error instanceof PermitPreemptedError) this.preempt(error);
    this.loss.abort(error);
    // The permit ends by itself then. A server that can't be reached would keep the process up.
    if (this.lease.safeMs <= 0) void pause(this.lease.leftMs, this.watching.signal).then(() => this.watching.abort());
  }

  private errorOf({ how, reason }: PermitEnd): PermitLostError {
    if (how === 'preempted') return this.preemption ?? new PermitPreemptedError(this, this.runId);
    const cause = how === 'lease-expired' ? this.lastError : undefined;
    return new PermitLostError(this, this.runId, how, reason, cause ? { cause } : undefined);
  }

  private lost(): PermitLostError {
    return this.lossError ?? new PermitLostError(this, this.runId, 'released');
  }

  /** Concurrent calls share one renewal. `false`: lost. */
  private renewed(): Promise<boolean> {
    this.renewing ??= this.renewOnce().finally(() => {
      this.renewing = undefined;
    });
    return this.renewing;
  }

  private async renewOnce(leaseMs?: number): Promise<boolean> {
    for (let attempt = 0; this.looksHeld(); attempt++) {
      const sentMs = monotonicMs();
      try {
        const withinMs = Math.min(this.lease.safeMs, this.lease.leaseMs / 3);
        const delivered = await this.run.send(RENEW, withinMs, ...(leaseMs === undefined ? [] : [{ leaseMs }]));
        if (!delivered) this.lose(await this.howItEnded());
        // An answer that comes after the end of the lease that we know proves nothing: the permit may be closing.
        if (!this.looksHeld()) return false;
        this.lease.renewed(sentMs, leaseMs);
        this.lastError = undefined;
        return true;
      } catch (error) {
        // Only "not found" means lost. After any other error a retry may succeed (even a permission may return) until the lease ends.
        this.lastError = error;
        await pause(retryDelayMs(attempt), this.keeping.signal);
      }
    }
    return false;
  }

  /** The permit has ended, so the long poll tells how in a moment, unless it fails itself. */
  private async howItEnded(): Promise<PermitEnd> {
    return (await Promise.race([this.ended, pause(1_000, this.keeping.signal)])) ?? { how: 'unknown' };
  }

  private async renewEvery(everyMs: number): Promise<void> {
    while (!this.keeping.signal.aborted) {
      await pause(this.lease.dueMs(everyMs), this.keeping.signal);
      await this.renewed(); // when the permit is lost, `signal` says so
    }
  }

  private async watchLease(): Promise<void> {
    while (this.looksHeld()) await pause(this.lease.safeMs, this.keeping.signal);
  }

  private async watchPreemption(): Promise<void> {
    try {
      if (await this.run.preemption(this.watching.signal)) this.preempt();
    } catch (error) {
      if (!this.watching.signal.aborted) throw error;
    }
  }

  private preempt(error = new PermitPreemptedError(this, this.runId)): void {
    if (this.preemption || this.releasing) return;
    this.preemption = error;
    this.tellPreempted(error);
    if (!this.place.atCheckpoints) this.loss.abort(error);
  }

  private async watchEnd(): Promise<PermitEnd | undefined> {
    try {
      const end = await this.run.end(this.watching.signal);
      this.lose(end);
      return end;
    } catch (error) {
      if (this.watching.signal.aborted) return undefined;
      throw error;
    }
  }

  /** Waits for the end after a release. @throws NoAnswerError when nobody polls the task queue */
  private async untilEnded(): Promise<void> {
    const over = new AbortController();
    const lease = pause(this.lease.leftMs, over.signal);
    const absent = this.pollers.areAbsent(over.signal).then(async (areAbsent) => areAbsent || (await lease));
    try {
      const first = await Promise.race([this.ended, lease, absent]);
      if (first !== true) return;
      throw new NoAnswerError(this.resource, ABSENT_AFTER_MS, { unpolled: this.pollers.taskQueue });
    } finally {
      over.abort();
    }
  }

  private async releaseOnce(): Promise<void> {
    this.looksHeld();
    this.keeping.abort();
    // When the lease is over, the permit ends without us.
    const untilMs = monotonicMs() + this.lease.leftMs;
    try {
      if (this.watching.signal.aborted || this.lease.leftMs <= 0) return;
      const persistence = { untilMs, signal: this.watching.signal };
      const delivered = await this.run.server.persist(() => this.run.send(RELEASE), persistence);
      // With a pace, the slot stays taken for it, which is not for the holder to wait for. One that has ended tells how.
      if (this.reference.paceMs === undefined || !delivered) await this.untilEnded();
    } catch (error) {
      if (!isTransient(error)) throw error;
    } finally {
      this.watching.abort();
    }
  }
}
