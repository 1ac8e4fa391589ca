import type { OnPreempted } from './preemption';

/** The permits of one holder, which follow each other, share this. None of them refers to the others: a holder may yield for ever. */
interface Tenure<Permit> {
  latest: Permit;
  isOver: boolean;
}

/**
 * How a holder gives its permit up for a while, and takes another one in its place. Both kinds of permits are such. Pure.
 *
 *     held --checkpoint(), wanted | yieldDuring()--> given up --work done--> in line again, with its old place --> `latest` is held
 */
export abstract class YieldingPermit<Self extends YieldingPermit<Self>> implements AsyncDisposable {
  private tenure: Tenure<Self> = { latest: this.self, isOver: false };
  private away = false;
  private readonly followers: ((next: Self) => void)[] = [];

  /** @param lineUp lines up again with the old place; absent where there is none */
  constructor(private readonly lineUp: (() => Promise<Self>) | undefined) {}

  /** @internal Whether a waiter of higher priority has asked for it. */
  abstract get isWanted(): boolean;

  /** @internal Neither released, handed over nor lost, as far as it knows. */
  abstract get isHeld(): boolean;

  /** Gives this permit back, and resolves when its slot is free. Idempotent. */
  protected abstract giveUp(): Promise<void>;

  /** @internal After it was given back: the error, if it had ended before, as far as the server has told. */
  abstract lateLoss(): Promise<Error | undefined>;

  /** Throws the error of a permit that is not held any more. */
  protected abstract throwLost(): never;

  /** Throws the error for a permit that can't line up again. */
  protected abstract throwNoPlace(): never;

  /**
   * A safe point: goes on under this permit, unless a waiter of higher priority has asked for it. Then it gives the permit up, lines
   * up again with its old place (the time at which its acquire began, and its priority), and resolves with a new permit: another
   * run ID and token, and maybe another slot. Use only that one from then on. While nobody asks, it does and costs nothing.
   *
   * Inside `withPermit`, give the acquire `preemptible: { grace, atCheckpoints: true }`. `withPermit` renews the new permit, watches
   * it and releases it in the end. Each wait has the whole `timeout` of the acquire; one of 0 counts for the first wait only.
   *
   * @throws PermitLostError when the permit has ended already, whether anybody asks or not
   * @throws as `acquire` does while it waits; it holds nothing then
   *
   * @example
   * ```ts
   * for (const frame of frames) {
   *   await render(frame, permit.slot);
   *   permit = await permit.checkpoint();
   * }
   * ```
   */
  async checkpoint(): Promise<Self> {
    if (!this.isHeld) this.throwLost();
    return this.isWanted ? await this.yieldDuring(async () => undefined) : this.self;
  }

  /**
   * Gives the permit up for a long wait, such as for a human, a timer or a child: others may use its slot meanwhile. When `work` is
   * done, it lines up again with its old place, and resolves with a new permit, as {@link checkpoint} does.
   *
   * Not guaranteed: that the resource is as it was. Inside other `withPermit`s, these stay held, and the new wait may deadlock with
   * callers that nest in another order.
   *
   * @throws whatever `work` throws, and as {@link checkpoint} does; it holds nothing then
   * @throws InvalidOptionsError for a permit of a set, and for an adopted one: they have no place in line. It is held on then
   */
  async yieldDuring(work: () => Promise<unknown>): Promise<Self> {
    const { lineUp, tenure } = this;
    if (!this.isHeld) this.throwLost();
    if (!lineUp) this.throwNoPlace();
    this.away = true;
    await this.giveUp();
    const loss = await this.lateLoss();
    if (loss) throw loss;
    await work();
    const next = await lineUp();
    next.tenure = tenure;
    tenure.latest = next;
    for (const follow of this.followers) follow(next);
    if (tenure.isOver) await next.release();
    return next;
  }

  /**
   * Releases the slot, and resolves when it is free. Idempotent: later calls share the first one's promise. It does nothing
   * to a permit that was lost or detached. After a {@link checkpoint} that gave the permit up, it releases the new one.
   */
  release(): Promise<void> {
    this.tenure.isOver = true;
    return this.tenure.latest.giveUp();
  }

  /** `await using permit = await semaphore.acquire()` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** @internal The permit that has this one's place now. */
  get latest(): Self {
    return this.tenure.latest;
  }

  /** @internal Given up for a while: no permit has this one's place now. */
  get isAway(): boolean {
    return this.away && this.latest === this.self;
  }

  /** @internal Released, handed over or lost: neither held nor given up for a while. */
  get isOver(): boolean {
    return this.tenure.isOver || !(this.latest.isHeld || this.latest.isAway);
  }

  /** @internal Lines up again, after the permit was given up. */
  async again(): Promise<Self> {
    return this.lineUp ? await this.lineUp() : this.throwNoPlace();
  }

  /** @internal Calls `follow` with the permit that takes this one's place, if one does. */
  whenFollowed(follow: (next: Self) => void): void {
    this.followers.push(follow);
  }

  private get self(): Self {
    return this as unknown as Self;
  }
}

/**
 * Runs `fn` under a permit that waiters of higher priority can take, as `onPreempted` says:
 *
 *     running --pre-empted--> stopping --reject--> throws
 *        ^                       '--restart | replace--> in line, with the old place --.
 *        '------------------------------------------------------------------------------'
 *
 * @param runUnder runs a function under a permit, releases that, and throws `PreemptedError` where its grace ended first
 */
export async function runPreemptible<Permit extends YieldingPermit<Permit> & { readonly runId: string }, Result>(
  first: Permit,
  fn: (permit: Permit) => Promise<Result>,
  onPreempted: OnPreempted<Permit, Result>,
  runUnder: (permit: Permit, fn: (permit: Permit) => Promise<Result>) => Promise<Result>,
  PreemptedError: abstract new (...args: never[]) => { readonly runId: string },
): Promise<Result> {
  let run = fn;
  for (let permit = first; ; permit = await permit.latest.again()) {
    try {
      return await runUnder(permit, run);
    } catch (error) {
      const isOurs = error instanceof PreemptedError && error.runId === permit.latest.runId;
      if (!isOurs || onPreempted === 'reject') throw error;
      if (onPreempted !== 'restart') run = onPreempted.replace;
    }
  }
}
