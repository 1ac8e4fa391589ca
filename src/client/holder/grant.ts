import type { Grant as AnyGrant } from '../../shared/held-permit';
import type { Lease } from '../../shared/lease';
import { isEndByTime } from '../../shared/loss';
import { type PermitRef, RELEASE, RENEW } from '../../shared/protocol';
import { monotonicMs, pause } from '../server/clock';
import { NoAnswerError, PermitLostError } from '../server/errors';
import { isTransient } from '../server/grpc-errors';
import { ownWorkerGone } from '../server/own-workers';
import type { PermitEnd, PermitRun } from '../server/permit-run';
import { ABSENT_AFTER_MS, type Pollers } from '../server/pollers';
import { retryDelayMs } from '../server/server';

type Watcher = Parameters<AnyGrant<PermitLostError>['watch']>[0];

/**
 * One permit's run, held by this process. It renews itself until it is released, detached or lost, unless the semaphore has
 * `renewEvery: false`. Until then it keeps the process alive, as an open connection does. Compare etcd's `Session` and Redisson's
 * watchdog.
 *
 *     held --release()--> releasing --permit Workflow closed--> released
 *      |---detach()--> detached: its adopter renews and releases it
 *      '---permit Workflow closed | no renewal got through in time--> lost
 *
 * Every call is pinned to the run, so a late one never touches the slot's next holder.
 */
export class Grant implements AnyGrant<PermitLostError> {
  loss: PermitLostError | undefined;
  isWanted = false;
  private watcher: Watcher | undefined;
  private readonly onLoss: ((error: PermitLostError) => void)[] = [];
  /** Aborted when the permit is no longer ours to keep, which stops the renewals. */
  private readonly keeping = new AbortController();
  /** Aborted when no code needs to know the permit's end any more. */
  private readonly watching = new AbortController();
  private readonly ended: Promise<PermitEnd | undefined>;
  /** Starts a second long poll for the end. A busy server drops news for a long poll, which then reports an end up to 20 s late. */
  private pollAnew = () => {};
  /** Whether the permit was held, by our own clock, when the work under it was done. */
  private wasHeldToEnd = false;
  private renewing: Promise<boolean> | undefined;
  private releasing: Promise<void> | undefined;
  /** The error of the last renewal, if it has failed. */
  private lastError: unknown;
  /** Why the release has not reached the server. The lease has ended the permit then. */
  releaseError: unknown;

  constructor(
    private readonly run: PermitRun,
    readonly ref: PermitRef,
    readonly lease: Lease,
    renewEveryMs: number | false,
    private readonly pollers: Pollers,
  ) {
    const isLate = new Promise<void>((resolve) => {
      this.pollAnew = resolve;
    });
    this.ended = Promise.race([this.watchEnd(), isLate.then(() => this.watchEnd())]);
    void this.watchLease();
    if (renewEveryMs !== false) void this.renewEvery(renewEveryMs);
    if (ref.preemptible) void this.watchPreemption();
  }

  get resource(): string {
    return this.ref.resource;
  }

  get slot(): string {
    return this.ref.slot;
  }

  get workflowId(): string {
    return this.ref.workflowId;
  }

  get runId(): string {
    return this.ref.runId;
  }

  /** When the lease ends, as far as this client knows. */
  get deadline(): Date {
    return new Date(Date.now() + this.lease.leftMs);
  }

  /** Checks the clock too: the lease may have ended since the last check. */
  get isHeld(): boolean {
    if (this.keeping.signal.aborted) return false;
    if (this.lease.safeMs > 0) return true;
    this.lose({ how: this.lease.isLongest ? 'timed-out' : 'lease-expired' });
    return false;
  }

  watch(watcher: Watcher): void {
    this.watcher = watcher;
    if (this.isWanted) watcher.wanted(this.preemption());
    if (this.loss) watcher.lost(this.loss);
  }

  /** Calls `tell` when the permit is lost, in addition to its watcher. */
  whenLost(tell: (error: PermitLostError) => void): void {
    if (this.loss) tell(this.loss);
    else this.onLoss.push(tell);
  }

  /** Calls `tell` when the permit is no longer ours to keep: released, detached or lost. */
  whenOver(tell: () => void): void {
    const { signal } = this.keeping;
    if (signal.aborted) tell();
    else signal.addEventListener('abort', tell, { once: true });
  }

  /** This retries failures until the permit is lost. */
  async renew(leaseMs?: number): Promise<Date> {
    if (!(await (leaseMs === undefined ? this.renewed() : this.renewOnce(leaseMs)))) throw this.notHeld();
    return this.deadline;
  }

  release(): Promise<void> {
    this.releasing ??= this.run.server.track(this.releaseOnce());
    return this.releasing;
  }

  detach(): void {
    this.keeping.abort();
    this.watching.abort();
  }

  notHeld(): PermitLostError {
    return this.loss ?? new PermitLostError(this.ref, this.ref.runId, 'released');
  }

  async confirmLoss(): Promise<PermitLostError | undefined> {
    const end = await this.ended;
    if (!end || end.how === 'released') return this.loss;
    // Only the release came too late.
    if (this.wasHeldToEnd && isEndByTime(end.how)) return undefined;
    return this.loss ?? this.errorOf(end);
  }

  private lose(end: PermitEnd): void {
    if (this.keeping.signal.aborted) return;
    const error = this.errorOf(end);
    this.loss = error;
    this.keeping.abort();
    if (error.how === 'preempted') this.want();
    this.watcher?.lost(error);
    for (const tell of this.onLoss) tell(error);
    // The permit then ends by itself. Waiting for a server that can't be reached would keep the process running.
    if (this.lease.safeMs <= 0) void pause(this.lease.leftMs, this.watching.signal).then(() => this.watching.abort());
  }

  private errorOf({ how, reason }: PermitEnd): PermitLostError {
    const cause = how === 'lease-expired' ? this.lastError : undefined;
    return new PermitLostError(this.ref, this.ref.runId, how, reason, cause ? { cause } : undefined);
  }

  private preemption(): PermitLostError {
    return new PermitLostError(this.ref, this.ref.runId, 'preempted');
  }

  private want(): void {
    if (this.isWanted || this.releasing) return;
    this.isWanted = true;
    this.watcher?.wanted(this.preemption());
  }

  /** Concurrent calls share one renewal. `false`: lost. */
  private renewed(): Promise<boolean> {
    this.renewing ??= this.renewOnce().finally(() => {
      this.renewing = undefined;
    });
    return this.renewing;
  }

  private async renewOnce(leaseMs?: number): Promise<boolean> {
    for (let attempt = 0; this.isHeld; attempt++) {
      const sentMs = monotonicMs();
      try {
        const withinMs = Math.min(this.lease.safeMs, this.lease.leaseMs / 3);
        const delivered = await this.run.send(RENEW, withinMs, ...(leaseMs === undefined ? [] : [{ leaseMs }]));
        if (!delivered) this.lose(await this.howItEnded());
        // An answer that comes after the end of the lease that we know proves nothing: the permit may be closing.
        if (!this.isHeld) return false;
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

  /** The permit has ended, so a poll reports in a moment how, unless the poll itself fails. */
  private async howItEnded(): Promise<PermitEnd> {
    this.pollAnew();
    return (await Promise.race([this.ended, pause(1_000, this.keeping.signal)])) ?? { how: 'unknown' };
  }

  private async renewEvery(everyMs: number): Promise<void> {
    while (!this.keeping.signal.aborted) {
      await pause(this.lease.dueMs(everyMs), this.keeping.signal);
      await this.renewed(); // when the permit is lost, its holder is told
    }
  }

  private async watchLease(): Promise<void> {
    while (this.isHeld) await pause(this.lease.safeMs, this.keeping.signal);
  }

  private async watchPreemption(): Promise<void> {
    try {
      if (await this.run.preemption(this.watching.signal)) this.want();
    } catch (error) {
      if (!this.watching.signal.aborted) throw error;
    }
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

  /** Waits for the end after a release. @throws NoAnswerError when the permit is paused, or no worker polls the task queue */
  private async untilEnded(): Promise<void> {
    const over = new AbortController();
    const lease = this.untilLeaseEnds(over.signal);
    const { namespace } = this.run.server.client.options;
    const gone = ownWorkerGone(namespace, this.pollers.taskQueue, over.signal);
    const absent = this.pollers.areAbsent(over.signal).then(async (areAbsent) => areAbsent || (await lease));
    try {
      const first = await Promise.race([this.ended, lease, absent, gone]);
      if (first !== true) return;
      throw new NoAnswerError(this.ref.resource, ABSENT_AFTER_MS, { unpolled: this.pollers.taskQueue });
    } finally {
      over.abort();
    }
  }

  /** @throws NoAnswerError when the permit is paused: its lease does not end it then, and the release takes effect when it is unpaused */
  private async untilLeaseEnds(over: AbortSignal): Promise<void> {
    const { leftMs } = this.lease;
    const lease = pause(leftMs, over);
    await pause(Math.min(leftMs, ABSENT_AFTER_MS), over);
    if (over.aborted) return;
    this.pollAnew();
    const isPaused = await this.run.isPaused();
    if (isPaused) throw new NoAnswerError(this.resource, ABSENT_AFTER_MS, { paused: this.workflowId });
    await lease;
  }

  private async releaseOnce(): Promise<void> {
    if (this.isHeld) {
      this.wasHeldToEnd = true;
      this.keeping.abort();
    }
    const isPaced = this.lease.heldMs < (this.ref.paceMs ?? 0);
    // When the lease is over, the permit ends without us.
    const untilMs = monotonicMs() + this.lease.leftMs;
    try {
      if (this.watching.signal.aborted || this.lease.leftMs <= 0) return;
      const persistence = { untilMs, signal: this.watching.signal };
      const delivered = await this.run.server.persist(() => this.run.send(RELEASE), persistence);
      if (!delivered) this.pollAnew();
      // The slot stays taken for the rest of its pace, and the holder need not wait for that. A permit that has ended reports how.
      if (!isPaced || !delivered) await this.untilEnded();
    } catch (error) {
      // When `watching` has aborted, the lease is over, or another holder has the permit.
      if (!isTransient(error) && !this.watching.signal.aborted) throw error;
      if (!this.loss) this.releaseError = error;
    } finally {
      this.watching.abort();
    }
  }
}
