/** What is mapped: a list, or what gives one item after the other; or a function that gives those from a place on. */
export type Items<T> = Iterable<T> | AsyncIterable<T> | ((from: number) => Iterable<T> | AsyncIterable<T>);

export interface LaneRules {
  /** How many lanes there are at most. Each has a permit of its own, or waits for one. */
  readonly concurrency: number;
  /** How many items one permit serves at most, one after the other. */
  readonly chunk: number;
  /** A permit that was held so long serves no further item. */
  readonly reuseForMs: number;
  readonly onError: 'stop' | 'collect';
  /** The number of the first item. */
  readonly from: number;
}

/** The surroundings of the lanes: a Workflow or a client. */
export interface LaneSurroundings<Permit> {
  nowMs(): number;
  /**
   * Waits for a permit, and calls `use` once under it. `leave` ends the wait, after which `done` resolves; it has no effect on a
   * permit that is there.
   */
  open(use: (permit: Permit) => Promise<void>): { done: Promise<void>; leave(): void };
  /** The error of a permit that is lost. */
  lossOf(permit: Permit): Promise<unknown>;
  /** An item may have released its permit. */
  isHeld(permit: Permit): boolean;
  /** Rejects when the caller is cancelled. */
  readonly cancelled: Promise<never>;
  /** Whether to begin no further item in this run. */
  isFull?(): boolean;
}

/** The outcomes of the items, in their order; `next` is the number of the first that has not begun, if one is left. */
export interface Mapped<R> {
  readonly outcomes: PromiseSettledResult<R>[];
  readonly next?: number;
}

interface Entry<T> {
  readonly item: T;
  readonly index: number;
}

/**
 *     waiting --permit--> taking <--> busy
 *        '--left            '--------> over (the permit goes back)
 */
interface Lane<T> {
  at: 'waiting' | 'taking' | 'busy' | 'over';
  /** The item that runs now. */
  current?: Entry<T>;
  leave(): void;
}

/** How often the code of others may go on before a lane takes a source for slow. */
const YIELDS = 20;

/**
 * Runs a function for each item, each under a permit that serves several items one after the other. Pure: the caller brings
 * permits and clock.
 *
 * Invariants, cited in the tests:
 *
 * - **L1** At most `concurrency` lanes hold or await a permit, and none is opened where those that want an item can take all.
 * - **L2** A lane takes an item only once it has a permit, so no item waits while another lane could run it.
 * - **L3** Items begin in their order, so one number says which of them have begun.
 * - **L4** A lane holds no permit while it waits for the source.
 * - **L5** After an error that stops, a cancellation or a full run, no item begins; those that run come to their end, and the
 *   lanes that wait leave.
 * - **L6** The loss of a permit is the failure of the item that ran under it, and of no other.
 */
export class Lanes<T, R, Permit> {
  private readonly iterator: Iterator<T> | AsyncIterator<T>;
  /** Items that have come and not begun. */
  private readonly ready: Entry<T>[] = [];
  private readonly outcomes: PromiseSettledResult<R>[] = [];
  private readonly lanes = new Set<Lane<T>>();
  private pulled: number;
  private isPulling = false;
  private isExhausted = false;
  /** No further item begins. */
  private isEnding = false;
  private failure: { error: unknown } | undefined;
  private isStirred = false;
  private wake = () => {};

  constructor(
    items: Items<T>,
    private readonly fn: (item: T, permit: Permit, index: number) => Promise<R>,
    private readonly rules: LaneRules,
    private readonly around: LaneSurroundings<Permit>,
  ) {
    this.iterator = iterate(items, rules.from);
    this.pulled = rules.from;
  }

  /** @throws the first error that stops; the error of the source; the reason why no permit can be had, or of the cancellation */
  async run(): Promise<Mapped<R>> {
    this.around.cancelled.catch((error: unknown) => this.stop(error));
    // Source and lanes are started from here alone: an item's own context, such as a scope that is cancelled, is no place for them.
    for (;;) {
      this.isStirred = false;
      this.pull();
      this.openLanes();
      if (this.isEnding || this.isDrained) for (const lane of this.lanes) if (lane.at === 'waiting') lane.leave();
      if (this.lanes.size === 0 && (this.isEnding || this.isDrained)) break;
      if (!this.isStirred) {
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    }
    await this.closeSource();
    if (this.failure) throw this.failure.error;
    const { outcomes } = this;
    return this.isDrained ? { outcomes } : { outcomes, next: this.ready[0]?.index ?? this.pulled };
  }

  /** All items have begun. */
  private get isDrained(): boolean {
    return this.isExhausted && this.ready.length === 0;
  }

  private stir(): void {
    this.isStirred = true;
    this.wake();
  }

  private stop(error: unknown): void {
    this.failure ??= { error };
    this.isEnding = true;
    this.stir();
  }

  private pull(): void {
    while (!this.isPulling && !this.isExhausted && !this.isEnding && this.ready.length < this.rules.concurrency) {
      this.isPulling = true;
      try {
        const next = this.iterator.next();
        if (!('then' in next)) this.came(next);
        else
          next.then(
            (result) => this.came(result),
            (error: unknown) => this.sourceFailed(error),
          );
      } catch (error) {
        this.sourceFailed(error);
      }
    }
  }

  private came({ done, value }: IteratorResult<T>): void {
    this.isPulling = false;
    if (done) this.isExhausted = true;
    else this.ready.push({ item: value, index: this.pulled++ });
    this.stir();
  }

  private sourceFailed(error: unknown): void {
    this.isPulling = false;
    this.isExhausted = true;
    this.stop(error);
  }

  /** A source that gives nothing now is not waited for: it may never come to an end. */
  private async closeSource(): Promise<void> {
    if (this.isExhausted) return;
    const closed = Promise.resolve(this.iterator.return?.()).catch((error: unknown) => this.stop(error));
    if (!this.isPulling) await closed;
  }

  private openLanes(): void {
    this.endIfFull();
    const wanting = () => [...this.lanes].filter(({ at }) => at === 'waiting' || at === 'taking').length;
    while (!this.isEnding && this.lanes.size < this.rules.concurrency && this.ready.length > wanting()) this.openLane(); // L1
  }

  private openLane(): void {
    const lane: Lane<T> = { at: 'waiting', leave: () => {} };
    this.lanes.add(lane);
    const { done, leave } = this.around.open(async (permit) => {
      lane.at = 'taking';
      await this.serve(lane, permit);
      lane.at = 'over';
      this.stir();
    });
    lane.leave = leave;
    done
      .catch((error: unknown) => this.laneFailed(lane, error))
      .finally(() => {
        this.lanes.delete(lane);
        this.stir();
      });
  }

  private laneFailed({ current, at }: Lane<T>, error: unknown): void {
    if (current)
      this.settle(current, { status: 'rejected', reason: error }); // L6
    // Lost between two items, a permit has failed none.
    else if (at === 'waiting' || (error as Partial<Error> | undefined)?.name !== 'PermitLostError') this.stop(error);
  }

  /** Serves items under one permit. */
  private async serve(lane: Lane<T>, permit: Permit): Promise<void> {
    const { chunk, reuseForMs } = this.rules;
    const sinceMs = this.around.nowMs();
    for (let served = 0; served < chunk; served++) {
      if (served > 0 && (this.around.nowMs() - sinceMs >= reuseForMs || !this.around.isHeld(permit))) return;
      const entry = await this.take();
      if (!entry) return;
      lane.current = entry;
      lane.at = 'busy';
      const outcome = await this.outcomeOf(entry, permit);
      const loss = await this.around.lossOf(permit);
      if (loss) throw loss;
      lane.current = undefined;
      lane.at = 'taking';
      this.settle(entry, outcome);
    }
  }

  /** The next item, if it is there or comes at once. */
  private async take(): Promise<Entry<T> | undefined> {
    for (let yields = 0; this.ready.length === 0 && !this.isExhausted && yields < YIELDS; yields++) await undefined; // L4
    this.endIfFull();
    if (this.isEnding) return undefined; // L5
    const entry = this.ready.shift(); // L2, L3
    this.stir();
    return entry;
  }

  private async outcomeOf({ item, index }: Entry<T>, permit: Permit): Promise<PromiseSettledResult<R>> {
    try {
      return { status: 'fulfilled', value: await this.fn(item, permit, index) };
    } catch (reason) {
      return { status: 'rejected', reason };
    }
  }

  private settle({ index }: Entry<T>, outcome: PromiseSettledResult<R>): void {
    this.outcomes[index - this.rules.from] = outcome;
    if (outcome.status === 'rejected' && this.rules.onError === 'stop') this.stop(outcome.reason);
  }

  /** Every run begins one item at least, so that it goes on. */
  private endIfFull(): void {
    const hasBegun = this.pulled - this.ready.length > this.rules.from;
    if (hasBegun && this.around.isFull?.()) this.isEnding = true;
  }
}

/** Those of a list, and of a function, begin at `from`; of others, those before it are passed over. */
function iterate<T>(items: Items<T>, from: number): Iterator<T> | AsyncIterator<T> {
  if (typeof items === 'function') return iteratorOf(items(from));
  if (Array.isArray(items)) return items.slice(from)[Symbol.iterator]();
  if (from === 0) return iteratorOf(items);
  return Symbol.asyncIterator in items ? later(items, from) : laterOf(items, from);
}

function iteratorOf<T>(items: Iterable<T> | AsyncIterable<T>): Iterator<T> | AsyncIterator<T> {
  return Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
}

function* laterOf<T>(items: Iterable<T>, from: number): Generator<T> {
  let index = 0;
  for (const item of items) if (index++ >= from) yield item;
}

async function* later<T>(items: AsyncIterable<T>, from: number): AsyncGenerator<T> {
  let index = 0;
  for await (const item of items) if (index++ >= from) yield item;
}
