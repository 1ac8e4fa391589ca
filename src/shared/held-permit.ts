import type { Duration } from '@temporalio/common';
import { checkFunction, durationMs, InvalidOptionsError, show } from './check';
import { FencingToken } from './fencing-token';
import { earliest } from './lease';
import { releaseInReverse } from './permit-set';
import type { PermitRef } from './protocol';

function refusePermit(why: string): never {
  throw new InvalidOptionsError(`This permit ${why}.`);
}

/** One permit's run at the server, as its holder keeps it. */
export interface Grant<Lost extends Error> {
  readonly ref: PermitRef;
  /** Whether it is neither released, handed over nor lost, as far as is known. */
  readonly isHeld: boolean;
  /** Whether a waiter of higher priority has asked for it. */
  readonly isWanted: boolean;
  /** How it was lost before its release, as far as is known. */
  readonly loss: Lost | undefined;
  /** Calls `lost` when it ends before its release, and `wanted` when a waiter of higher priority asks for it; each at most once. */
  watch(watcher: { lost(error: Lost): void; wanted(error: Lost): void }): void;
  /** @returns when the lease ends now */
  renew(leaseMs: number | undefined): Promise<Date>;
  /**
   * The work under the permit is done. Resolves when the slot is free. If the release does not get through, the lease ends the permit: after
   * the work, that is no loss. Idempotent.
   */
  release(): Promise<void>;
  /** From now on, its adopter renews and releases it. */
  detach(): void;
  /** The error for code that uses the permit although it is not held any more. */
  notHeld(): Lost;
  /** After the release: asks the server whether the permit had ended before. */
  confirmLoss(): Promise<Lost | undefined>;
}

/** What a permit consists of besides its grant. */
export interface PermitTerms<G> {
  /** The key that the permit is for, and the grant of the key's own permit. */
  readonly key?: string;
  readonly behind?: G;
  /** Whether it may be handed over to another run. */
  readonly outlivesRun: boolean;
  /** Whether its holder gives way at checkpoints only. */
  readonly atCheckpoints?: boolean;
  /** Rejoins the queue at the old place; absent if there is no such place. */
  readonly lineUp?: () => Promise<G>;
}

/**
 * A held slot, as its holder sees it. The base class of both permits: that of Workflows and that of clients. It keeps one {@link Grant},
 * and exchanges the grant for another when its holder gives way.
 *
 *     held --checkpoint(), wanted | yield()--> away, nothing is held --work done, queued again--> held, by another grant
 *       |--release()--> released          from held: lost, detached
 */
export abstract class HeldPermit<G extends Grant<Lost>, Lost extends Error> implements AsyncDisposable {
  private away = false;
  /** The error of a pre-emption, once a waiter of higher priority has asked for the present grant. */
  private wanted: Lost | undefined;
  private asked: Promise<Lost> | undefined;
  private tellPreempted: (error: Lost) => void = () => undefined;
  private released = false;
  /** The token of the run that was held when the token was last read. */
  private lastToken: FencingToken | undefined;

  constructor(
    /** @internal The run that is held now. */
    protected grant: G,
    private readonly terms: PermitTerms<G>,
  ) {}

  /** The name of the shared thing. */
  get resource(): string {
    return this.grant.ref.resource;
  }

  /** Which of the resource's slots this holds. It may be another slot after a {@link checkpoint} or {@link yield} that gave the slot up. */
  get slot(): string {
    return this.grant.ref.slot;
  }

  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  get workflowId(): string {
    return this.grant.ref.workflowId;
  }

  /**
   * Orders the fencing tokens of one slot: the later permit has the greater run ID (server 1.27 or later). Servers do so in
   * practice; Temporal does not guarantee it. The run ID changes with a {@link checkpoint} or {@link yield} that gave the permit up.
   */
  get runId(): string {
    return this.grant.ref.runId;
  }

  /**
   * Names this permit to the resource that it protects, which then refuses an older holder's writes: pass `String(permit.token)` with
   * each write. The token changes with a {@link checkpoint} or {@link yield} that gave the permit up.
   */
  get token(): FencingToken {
    if (this.lastToken?.runId !== this.runId) this.lastToken = FencingToken.from(this);
    return this.lastToken;
  }

  /** Whether the permit is neither released, handed over, given up for a while nor lost, as far as is known here. */
  get isHeld(): boolean {
    return !this.away && this.grants.every(({ isHeld }) => isHeld);
  }

  /**
   * Resolves when a waiter of higher priority has asked for the permit, which then ends with its grace at the latest. Never resolves
   * otherwise. `withPermit` watches this promise for you. After a {@link checkpoint} that gave the slot up, read the property again.
   */
  get preempted(): Promise<Lost> {
    this.asked ??= new Promise((resolve) => {
      this.tellPreempted = resolve;
      if (this.wanted) resolve(this.wanted);
    });
    return this.asked;
  }

  /**
   * Renews the lease: without another renewal, the permit ends one lease from now.
   * @param lease the length of this one lease, from now: longer for a time in which the holder will not renew. Default: the permit's own
   * @returns when the lease ends now, as far as is known here: never earlier than it would have ended, and never later than `maxHold`,
   * whatever was asked for. (For an adopted permit, `maxHold` is unknown.)
   * @throws PermitLostError when the permit has ended already, or was released or detached
   * @throws InvalidOptionsError (in a Workflow an ApplicationFailure of that type)
   */
  async renew(lease?: Duration): Promise<Date> {
    const leaseMs = this.check(() => durationMs('lease', lease, 1));
    if (!this.isHeld) throw this.notHeld();
    return earliest(await Promise.all(this.grants.map((grant) => grant.renew(leaseMs))));
  }

  /**
   * A safe point: goes on under this permit, unless a waiter of higher priority has asked for it. Then it gives the slot up, rejoins
   * the queue at its old place (the time at which its acquire began, and its priority), and resolves when it holds a slot again: with
   * another run ID and token, and maybe another slot. If no waiter has asked, this does nothing and costs nothing.
   *
   * Inside `withPermit`, give the acquire `preemptible: { grace, atCheckpoints: true }`. Each wait has the whole `timeout` of the
   * acquire; a `timeout` of 0 applies to the first wait only.
   *
   * @returns this permit
   * @throws PermitLostError when the permit has ended already, whether a waiter asks or not
   * @throws as `acquire` does while it waits; this permit then holds nothing
   *
   * @example
   * ```ts
   * for (const frame of frames) {
   *   await render(frame, permit.slot);
   *   await permit.checkpoint();
   * }
   * ```
   */
  async checkpoint(): Promise<this> {
    if (!this.isHeld) throw this.notHeld();
    return this.grant.isWanted ? await this.yield(async () => undefined) : this;
  }

  /**
   * Gives the slot up for a long wait, such as for a human, a timer or a child: others may use it meanwhile. When `work` is
   * done, it rejoins the queue at its old place, and resolves when it holds a slot again, as {@link checkpoint} does.
   *
   * Not guaranteed: that the resource is unchanged afterwards. The permits of other `withPermit`s around the call stay held, and the new wait
   * may deadlock with callers that nest in another order.
   *
   * @returns this permit
   * @throws whatever `work` throws, and as {@link checkpoint} does; this permit then holds nothing
   * @throws InvalidOptionsError for an adopted permit, and for a permit of a set or of a key: it has no place in the queue. The permit
   * stays held then
   *
   * @example
   * ```ts
   * await permit.yield(() => approval()); // other callers may use the slot while a human decides
   * await train(permit.slot);
   * ```
   */
  async yield(work: () => unknown): Promise<this> {
    const { lineUp } = this.terms;
    if (!this.isHeld) throw this.notHeld();
    if (!lineUp)
      return this.check(() =>
        refusePermit("can't yield: an adopted permit, or a permit of a set or of a key, can't rejoin the queue"),
      );
    this.check(() => checkFunction(work, 'work'));
    this.away = true;
    try {
      await this.grant.release();
      const loss = await this.grant.confirmLoss();
      if (loss) throw loss;
      await work();
      this.take(await lineUp());
    } finally {
      this.away = false;
    }
    if (this.released) await this.grant.release();
    return this;
  }

  /**
   * Releases the slot, and resolves when it is free. Idempotent. It does nothing to a permit that was lost or detached; but a permit of a key
   * that has lost one of its two permits still has the other until then.
   */
  release(): Promise<void> {
    this.released = true;
    return this.terms.behind ? releaseInReverse(this.grants) : this.grant.release();
  }

  /** `await using permit = await semaphore.acquire()` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /**
   * Names this permit as plain JSON, for its adopter. It changes nothing: this object still renews and releases. Inside `withPermit`,
   * which would release the permit, use {@link detach}.
   * @throws InvalidOptionsError for a permit of a `key`: no caller could adopt the permit of the key behind it
   * @throws InvalidOptionsError in a Workflow, for a permit that was acquired without `outlivesRun`: it ends with this run
   *
   * @example
   * ```ts
   * const json = JSON.stringify(permit.ref()); // for the process that adopts it
   * ```
   */
  ref(): PermitRef {
    const { key, outlivesRun } = this.terms;
    this.check(() => {
      if (!outlivesRun)
        refusePermit("can't be handed over: it ends with this run, unless it is acquired with outlivesRun: true");
      if (key !== undefined)
        refusePermit(`can't be handed over: no caller could adopt the permit of its key ${show(key)}`);
    });
    return { ...this.grant.ref };
  }

  /**
   * Hands the permit over: from now on, this object neither renews nor releases it, nor is notified of its loss. The new holder
   * must adopt the reference before the lease ends. Throws as {@link ref} does.
   * @throws PermitLostError when this object no longer holds the permit
   *
   * @example
   * ```ts
   * import { continueAsNew } from '@temporalio/workflow';
   *
   * await continueAsNew(permit.detach()); // the next run adopts it
   * ```
   */
  detach(): PermitRef {
    const ref = this.ref();
    if (!this.isHeld) throw this.notHeld();
    this.grant.detach();
    return ref;
  }

  /** @internal The resources of which this is a permit: its own, and that of its key. */
  get resources(): readonly string[] {
    return this.grants.map(({ ref }) => ref.resource);
  }

  /** @internal The key that the permit is for. */
  get key(): string | undefined {
    return this.terms.key;
  }

  /** @internal Whether it may outlive its holder's run. */
  get outlivesRun(): boolean {
    return this.terms.outlivesRun;
  }

  /** @internal Whether it is given up for a while. */
  get isAway(): boolean {
    return this.away;
  }

  /** @internal Whether it is released, handed over or lost for good. */
  get isOver(): boolean {
    return this.released || !(this.isHeld || this.away);
  }

  /** @internal How it was lost before its release, as far as is known. */
  get loss(): Lost | undefined {
    return this.grant.loss ?? this.terms.behind?.loss;
  }

  /** @internal After the release: asks the server whether the permit had ended before. */
  async confirmLoss(): Promise<Lost | undefined> {
    const { behind } = this.terms;
    return (await this.grant.confirmLoss()) ?? (behind && (await behind.confirmLoss()));
  }

  /** Keeps this grant from now on. The constructors of both permits call this once. */
  protected take(grant: G): void {
    this.grant = grant;
    this.asked = undefined;
    this.wanted = undefined;
    for (const it of this.grants) {
      it.watch({
        lost: (error) => this.holds(it) && this.onLost(error),
        wanted: (error) => this.holds(it) && this.want(error),
      });
    }
  }

  /** The permit was lost: the work under it must stop. */
  protected abstract onLost(error: Lost): void;

  /** A waiter of higher priority asks for the permit. @param mustStop whether the work under it must stop, within the grace */
  protected abstract onWanted(error: Lost, mustStop: boolean): void;

  /** Runs a check of the user's input, and throws in the form that this side (Workflow or client) uses. */
  protected abstract check<T>(check: () => T): T;

  private want(error: Lost): void {
    this.wanted = error;
    this.tellPreempted(error);
    this.onWanted(error, this.terms.atCheckpoints !== true);
  }

  private holds(grant: G): boolean {
    return grant === this.grant || grant === this.terms.behind;
  }

  /** The error for code that uses the permit although it is not held any more. */
  private notHeld(): Lost {
    return this.loss ?? this.grant.notHeld();
  }

  /** The grant of the key's own permit first: the order in which they were acquired. */
  protected get grants(): readonly G[] {
    return this.terms.behind ? [this.terms.behind, this.grant] : [this.grant];
  }
}
