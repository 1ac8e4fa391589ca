import { type PermitRef, RELEASE, RENEW } from '../../shared/protocol';
import { monotonicMs, pause } from '../clock';
import { NoAnswerError, PermitLostError } from '../errors';
import { type Pollers, SILENCE_MS } from '../pollers';
import { isTransient, retryDelayMs } from '../server';
import type { Lease } from './lease';
import type { PermitEnd, PermitRun } from './permit-run';

/**
 * A held slot, seen from outside Workflows. It renews itself until it is released, detached or lost (unless the semaphore
 * has `renewEvery: false`), and keeps the process alive as long, as an open connection does. Like etcd's `Session` and
 * Redisson's watchdog.
 *
 *     held --release()--> releasing --permit Workflow closed--> released
 *      |---detach()--> detached: somebody else renews and releases it
 *      '---permit Workflow closed | no renewal got through in time--> lost: `signal` aborts
 *
 * Every call is pinned to this permit's own run, so a late one never touches the slot's next holder.
 */
export class Permit implements AsyncDisposable {
  readonly resource: string;
  readonly slot: string;
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  readonly workflowId: string;
  /**
   * What orders the fencing tokens of one slot: the later permit has the greater run ID (server 1.27 or later). That is
   * observed of servers, not promised; `docs/fencing.md` says what could invert it. The token is `FencingToken.from(permit)`.
   */
  readonly runId: string;

  private readonly loss = new AbortController();
  /** Aborted when the permit is not ours to keep any more: stops renewing. */
  private readonly keeping = new AbortController();
  /** Aborted when its end is of no interest any more. */
  private readonly watching = new AbortController();
  private readonly ended: Promise<PermitEnd | undefined>;
  private renewing: Promise<boolean> | undefined;
  private releasing: Promise<void> | undefined;
  /** Why the last renewal did not get through. */
  private lastError: unknown;

  /** @internal Made by `SemaphoreClient`. */
  constructor(
    private readonly run: PermitRun,
    private readonly reference: PermitRef,
    private readonly lease: Lease,
    renewEveryMs: number | false,
    private readonly pollers: Pollers,
  ) {
    this.resource = reference.resource;
    this.slot = reference.slot;
    this.workflowId = reference.workflowId;
    this.runId = reference.runId;
    this.ended = this.watchEnd();
    void this.watchLease();
    if (renewEveryMs !== false) void this.renewEvery(renewEveryMs);
  }

  /**
   * Aborts when the permit is lost, with the {@link PermitLostError} as its reason: at once when the server says that it
   * has ended, and a tenth of the lease before its end when no renewal gets through. Hand it to whatever works under the
   * permit. Where code may sleep past the lease (a blocked event loop, a stopped process), read `permit.signal.aborted`
   * before each step: it looks at the clock.
   */
  get signal(): AbortSignal {
    this.looksHeld();
    return this.loss.signal;
  }

  /** Until when the lease goes, for all that is known here; renewals move it. The `signal` aborts a tenth of the lease before. */
  get deadline(): Date {
    return new Date(Date.now() + this.lease.leftMs);
  }

  /** How long before the lease's end the `signal` aborts, in milliseconds, when no renewal gets through. */
  get noticeMs(): number {
    return this.lease.noticeMs;
  }

  /**
   * Starts the lease anew: the permit now ends one lease from now unless renewed again. It never shortens. Failures are
   * retried until the permit is lost.
   * @throws PermitLostError when the permit has ended, was released or detached, or nothing got through before the lease's end
   */
  async renew(): Promise<void> {
    if (!(await this.renewed())) throw this.lost();
  }

  /**
   * Gives the slot back, and resolves when it is free. When the server can't be reached, it resolves at the lease's end at
   * the latest, for nothing renews it any more. Idempotent. A permit that was lost or detached is left alone.
   * @throws NoAnswerError with `unpolled` when the slot is not free after two seconds and nobody polls its task queue: the
   * release has been sent, and takes effect when a worker is up
   * @throws ServiceError when the server refuses, for example for want of permission; the lease then ends the permit
   */
  release(): Promise<void> {
    this.releasing ??= this.releaseOnce();
    return this.releasing;
  }

  /** `await using permit = await semaphore.acquire()` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Names this permit as plain JSON. It changes nothing: this object still renews and releases. */
  ref(): PermitRef {
    return { ...this.reference };
  }

  /**
   * Hands the permit over: this object neither renews nor releases it from now on, nor learns of its loss. Whoever gets the
   * reference adopts it (`Semaphore.adopt` in a Workflow) before the lease ends.
   * @throws PermitLostError when there is nothing left to hand over
   */
  detach(): PermitRef {
    if (!this.looksHeld()) throw this.lost();
    this.keeping.abort();
    this.watching.abort();
    return this.ref();
  }

  /** Reads the clock too: nobody may have looked at it since the lease ended. */
  private looksHeld(): boolean {
    if (this.keeping.signal.aborted) return false;
    if (this.lease.safeMs > 0) return true;
    this.lose({ how: 'lease-expired' });
    return false;
  }

  private lose({ how, reason }: PermitEnd): void {
    if (this.keeping.signal.aborted) return;
    const cause = how === 'lease-expired' ? this.lastError : undefined;
    this.keeping.abort();
    this.loss.abort(new PermitLostError(this, this.runId, how, reason, cause ? { cause } : undefined));
  }

  private lost(): PermitLostError {
    const { reason } = this.loss.signal;
    return reason instanceof PermitLostError ? reason : new PermitLostError(this, this.runId, 'released');
  }

  /** Calls that come while one is under way share it. `false`: lost. */
  private renewed(): Promise<boolean> {
    this.renewing ??= this.renewOnce().finally(() => {
      this.renewing = undefined;
    });
    return this.renewing;
  }

  private async renewOnce(): Promise<boolean> {
    for (let attempt = 0; this.looksHeld(); attempt++) {
      const sentMs = monotonicMs();
      try {
        const delivered = await this.run.send(RENEW, Math.min(this.lease.safeMs, this.lease.leaseMs / 3));
        if (!delivered) this.lose(await this.howItEnded());
        // An answer that comes after the end of the lease we knew of proves nothing: the permit may be closing.
        if (!this.looksHeld()) return false;
        this.lease.renewed(sentMs);
        this.lastError = undefined;
        return true;
      } catch (error) {
        // Whatever it is: only "not found" means lost. A permission may come back, and the clock sets the end.
        this.lastError = error;
        await pause(retryDelayMs(attempt), this.keeping.signal);
      }
    }
    return false;
  }

  /** The permit has ended, so the long poll knows how in a moment, unless it has trouble of its own. */
  private async howItEnded(): Promise<PermitEnd> {
    return (await Promise.race([this.ended, pause(1_000, this.keeping.signal)])) ?? { how: 'unknown' };
  }

  private async renewEvery(everyMs: number): Promise<void> {
    while (!this.keeping.signal.aborted) {
      await pause(this.lease.dueMs(everyMs), this.keeping.signal);
      await this.renewed(); // if lost, `signal` tells
    }
  }

  private async watchLease(): Promise<void> {
    while (this.looksHeld()) await pause(this.lease.safeMs, this.keeping.signal);
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

  /** The end that was asked for. @throws NoAnswerError when nobody is there to carry it out */
  private async untilEnded(): Promise<void> {
    const over = new AbortController();
    const lease = pause(this.lease.leftMs, over.signal);
    const missed = this.pollers.areMissed(over.signal).then(async (areMissed) => areMissed || (await lease));
    try {
      const first = await Promise.race([this.ended, lease, missed]);
      if (first !== true) return;
      throw new NoAnswerError(this.resource, SILENCE_MS, { unpolled: this.pollers.taskQueue });
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
      await this.run.server.persist(() => this.run.send(RELEASE), { untilMs, signal: this.watching.signal });
      await this.untilEnded();
    } catch (error) {
      if (!isTransient(error)) throw error;
    } finally {
      this.watching.abort();
    }
  }
}
