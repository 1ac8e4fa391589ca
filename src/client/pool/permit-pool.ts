import { AsyncResource } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { withFencingToken } from '../../fencing/current-token';
import { checkFunction, DEFAULT_PRIORITY_KEY, refuseKind } from '../../shared/check';
import type { AcquireOutcome } from '../../shared/metrics';
import { atOnce } from '../../shared/options';
import { PermitTimeoutError, PoolClosedError } from '../errors';
import { checkSelfDeadlock, ownWait, releaseOrWarn } from '../holder/hold';
import type { Permit } from '../holder/permit';
import { SemaphoreClient } from '../semaphore-client';
import { isTransient, MAX_TIMER_MS, monotonicMs } from '../server';
import { LineEntry } from './caller-line';
import type { Place } from './growth';
import type { PermitSource } from './permit-source';
import {
  type PermitPoolOptions,
  type PoolAcquireOptions,
  type PoolCall,
  resolvePool,
  resolvePoolCall,
} from './pool-options';
import { type Held, type PoolCommand, PoolState } from './pool-state';
import { PooledPermit } from './pooled-permit';

/** A call of this process that waits for a permit. */
class WaitingCall extends LineEntry {
  readonly sinceMs = monotonicMs();
  stopListening = () => {};

  constructor(
    readonly request: PoolCall,
    readonly resolve: (permit: PooledPermit | undefined) => void,
    readonly reject: (error: unknown) => void,
  ) {
    super(request.priority?.priorityKey || DEFAULT_PRIORITY_KEY, monotonicMs() + request.timeoutMs);
  }
}

/**
 * Holds permits of a {@link SemaphoreClient} a little longer than one call, and hands them from caller to caller inside this
 * process. For short work: a hand-off in the process takes microseconds, one through the server about 0.1 s. Never more calls
 * run at once than permits are held, so the capacity holds over all processes.
 *
 * In the process it is a fair semaphore: by the `priorityKey`, then by arrival. Callers that wait cost memory only. The pool
 * grows while callers wait, and gives back what nobody uses for `idleFor`. While others wait (other pools, other clients,
 * Workflows), a permit goes back at the end of the call that passes `reuseFor`, and the pool lines up again behind them. Between
 * pools, permits move until each has its equal share.
 *
 * Not guaranteed: all that {@link SemaphoreClient} does not guarantee. A call that waits for another call of the same pool may
 * wait for ever. Calls under one permit carry the same fencing token, so a fence can't tell them apart. A killed process
 * costs others one lease for each of its permits.
 *
 * @example
 * ```ts
 * const vendor = new SemaphoreClient(client, 'vendor-api', { capacity: 20, taskQueue: 'permits' });
 * await using pool = new PermitPool(vendor);
 *
 * await Promise.all(orders.map((order) => pool.withPermit(({ signal }) => callVendor(order, { signal }))));
 * ```
 */
export class PermitPool implements AsyncDisposable {
  readonly resource: string;
  private readonly source: PermitSource;
  private readonly state: PoolState<WaitingCall, Permit>;
  private readonly steps = new Steps(() => this.step());
  /** The call that runs under each permit. */
  private readonly calls = new Map<Held<Permit>, PooledPermit>();
  private readonly places = new Map<Place, AbortController>();
  private readonly held = new Set<Held<Permit>>();
  private readonly stop = new AbortController();
  private closing: Promise<void> | undefined;
  private emptied = () => {};
  /** What is done once no try is under way. */
  private tried = () => {};
  /** What is done once nobody is here. */
  private left: (() => void)[] = [];

  /**
   * @param semaphore whose permits are held; others may use it beside the pool
   * @throws InvalidOptionsError that says what was expected and what came
   */
  constructor(semaphore: SemaphoreClient, options?: PermitPoolOptions) {
    if (!(semaphore instanceof SemaphoreClient)) refuseKind('semaphore', 'a SemaphoreClient', semaphore);
    this.resource = semaphore.resource;
    this.source = semaphore.permitSource();
    const rules = resolvePool(this.source.semaphore, options);
    this.state = new PoolState({ ...rules, id: this.source.poolId }, ({ signal }) => !signal.aborted);
    setMaxListeners(0, this.stop.signal); // one for each call to the server
  }

  /**
   * Runs `fn` under a permit, and then lets the next caller have it. When the permit is lost, `permit.signal` aborts; it is for
   * `fn` to heed it, and this waits for `fn` in any case. Inside `fn`, `currentFencingToken()` of `temporal-semaphore/fencing`
   * is the permit's.
   *
   * @throws PermitLostError when the permit was lost before `fn` was done, whatever `fn` then returned or threw
   * @throws PermitTimeoutError, PoolClosedError and others as {@link acquire} does; `fn` has not run then
   */
  async withPermit<T>(fn: (permit: PooledPermit) => Promise<T>, options?: PoolAcquireOptions): Promise<T> {
    checkFunction(fn);
    const permit = await this.acquire(options);
    try {
      const result = await withFencingToken(permit.token, () => fn(permit));
      permit.throwIfLost();
      return result;
    } catch (error) {
      permit.throwIfLost();
      throw error;
    } finally {
      permit.release();
    }
  }

  /**
   * Waits for a permit. The caller must release it; prefer {@link withPermit}. While the server can't be reached or is
   * overloaded, callers wait on.
   *
   * @throws PermitTimeoutError when `timeout` is given and no permit was had in it; it says so when nobody polls the task queue
   * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource, if no `timeout` is given
   * @throws PoolClosedError when the pool is closed, or is closed before this caller is served
   * @throws the reason of `signal` when that aborts before this caller is served
   * @throws InvalidOptionsError, before anything else
   * @throws ServiceError when the server refuses, and the pool holds no permit
   */
  async acquire(options?: PoolAcquireOptions): Promise<PooledPermit> {
    const request = resolvePoolCall(options);
    const permit = await this.ask(request);
    if (permit) return permit;
    // With a permit in hand, somebody is there to run permits.
    const own = ownWait(this.source.semaphore);
    const circumstances = this.held.size === 0 ? { ...(await this.source.circumstances()), own } : {};
    throw new PermitTimeoutError(this.resource, request.timeoutMs, circumstances);
  }

  /**
   * A permit that is idle, or one more from the server, where every slot is tried once. `undefined` when there is none, the
   * pool has its `max`, or other callers wait. Throws as {@link acquire} does, except for the timeout.
   */
  async tryAcquire(options?: Omit<PoolAcquireOptions, 'timeout'>): Promise<PooledPermit | undefined> {
    return await this.ask(resolvePoolCall(atOnce<PoolAcquireOptions>(options)));
  }

  /** How many calls run under a permit now. */
  get active(): number {
    return this.calls.size;
  }

  /** How many callers wait for a permit now. */
  get waiting(): number {
    return this.state.waiting;
  }

  /**
   * Resolves when no call runs and nobody waits: at once where that is so, and otherwise at the first moment at which it is. A pool that is
   * idle keeps its permits for `idleFor`. A call must not wait for it. Before a {@link close}, it lets all calls finish that were made.
   * The idea is that of p-queue's `onIdle`.
   */
  async idle(): Promise<void> {
    if (this.isUsed) await new Promise<void>((resolve) => this.left.push(resolve));
  }

  /**
   * Ends the pool. Calls that run go on, and so do those made just before that have a permit without a wait: an idle one, or one of a
   * free slot. Callers that wait for others, and those that come later, reject with a `PoolClosedError`. Resolves when all calls
   * are done, all permits are given back, and nothing of the pool needs the connection. Idempotent. A call must not wait for it.
   */
  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  /** `await using pool = new PermitPool(…)` closes it at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private get isUsed(): boolean {
    return this.active > 0 || this.waiting > 0;
  }

  private async closeOnce(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.tried = resolve;
      this.steps.soon();
    });
    const emptied = new Promise<void>((resolve) => {
      this.emptied = resolve;
    });
    const error = new PoolClosedError(this.resource);
    this.stop.abort(error);
    for (const caller of this.state.close()) this.fail(caller, 'cancelled', error);
    this.steps.soon();
    await emptied;
    await this.source.ended(); // such as a look, or a call that was given up
  }

  private async ask(request: PoolCall): Promise<PooledPermit | undefined> {
    request.signal?.throwIfAborted();
    if (this.closing) throw new PoolClosedError(this.resource);
    if (this.held.size === 0) checkSelfDeadlock([this.source.semaphore], request);
    return await new Promise((resolve, reject) => {
      const caller = new WaitingCall(request, resolve, reject);
      this.listen(caller, request.signal);
      if (request.timeoutMs > 0) this.state.enqueue(caller);
      else this.state.tryOnce(caller);
      this.steps.soon();
    });
  }

  private listen(caller: WaitingCall, signal: AbortSignal | undefined): void {
    if (!signal) return;
    const leave = () => {
      if (this.state.withdraw(caller)) this.fail(caller, 'cancelled', signal.reason);
      this.steps.soon();
    };
    setMaxListeners(0, signal); // many callers may have one signal
    signal.addEventListener('abort', leave, { once: true });
    caller.stopListening = () => signal.removeEventListener('abort', leave);
  }

  /** Does what the state says, until it has nothing more to say. @returns when to come again, on the monotonic clock */
  private step(): number {
    const nowMs = monotonicMs();
    for (const command of this.state.next(nowMs)) this.carryOut(command);
    if (!this.state.isTrying) this.tried();
    if (!this.isUsed) for (const resolve of this.left.splice(0)) resolve();
    if (this.closing && this.state.isEmpty && this.calls.size === 0) this.emptied(); // a lost permit's call may go on
    return this.state.dueMs();
  }

  private carryOut(command: PoolCommand<WaitingCall, Permit>): void {
    if (command.do === 'serve') this.serve(command.caller, command.held);
    else if (command.do === 'time-out') this.settle(command.caller, 'timeout', undefined);
    else if (command.do === 'refuse') this.settle(command.caller, 'full', undefined);
    else if (command.do === 'fail') this.fail(command.caller, 'failed', command.error);
    else if (command.do === 'release') void this.release(command.held);
    else if (command.do === 'look') void this.look();
    else if (command.do === 'try') void this.try(command);
    else if (command.do === 'line-up') void this.lineUp(command.place, command.caller?.request);
    else this.places.get(command.place)?.abort();
  }

  private serve(caller: WaitingCall, held: Held<Permit>): void {
    const permit = new PooledPermit(held.permit, () => {
      this.calls.delete(held);
      this.state.finished(held, monotonicMs());
      this.steps.soon();
    });
    this.calls.set(held, permit);
    if (held.uses > 1) this.source.metrics.poolReuse(this.resource);
    this.settle(caller, 'acquired', permit);
  }

  private settle(caller: WaitingCall, outcome: AcquireOutcome, permit: PooledPermit | undefined): void {
    caller.stopListening();
    this.source.metrics.poolWait(this.resource, caller.sinceMs, outcome);
    caller.resolve(permit);
  }

  private fail(caller: WaitingCall, outcome: AcquireOutcome, error: unknown): void {
    caller.stopListening();
    this.source.metrics.poolWait(this.resource, caller.sinceMs, outcome);
    caller.reject(error);
  }

  private acquired(permit: Permit, place?: Place): void {
    const held = this.state.acquired(permit, monotonicMs(), place);
    this.held.add(held);
    const { signal } = permit;
    const lose = () => {
      this.calls.get(held)?.lose(signal.reason);
      this.gone(held);
    };
    if (signal.aborted) lose();
    else signal.addEventListener('abort', lose, { once: true });
    this.steps.soon();
  }

  private gone(held: Held<Permit>): void {
    this.held.delete(held);
    this.state.ended(held);
    this.steps.soon();
  }

  private async release(held: Held<Permit>): Promise<void> {
    await releaseOrWarn(held.permit);
    this.gone(held);
  }

  private async look(): Promise<void> {
    const others = await this.source.look();
    this.state.looked(others, monotonicMs());
    this.steps.soon();
  }

  private async try({ count, everySlot, caller }: PoolCommand<WaitingCall, Permit> & { do: 'try' }): Promise<void> {
    const without = new Set([...this.held].map(({ permit }) => permit.slot));
    const asking = { purpose: caller?.request.purpose, priority: caller?.request.priority };
    const { signal } = this.stop;
    let failure: unknown;
    try {
      await this.source.try({ count, everySlot, without }, asking, signal, (permit) => this.acquired(permit));
    } catch (error) {
      failure = error;
    }
    this.state.tried(
      monotonicMs(),
      failure === undefined ? undefined : { error: failure, passes: isTransient(failure) },
    );
    this.steps.soon();
  }

  private async lineUp(place: Place, request: PoolCall | undefined): Promise<void> {
    const stop = new AbortController();
    this.places.set(place, stop);
    const served = new AbortController();
    void this.source.warn(served.signal);
    let permit: Permit | undefined;
    let failure: unknown;
    try {
      permit = await this.source.lineUp(place, { purpose: request?.purpose, priority: request?.priority }, stop.signal);
    } catch (error) {
      failure = error;
    }
    served.abort();
    this.places.delete(place);
    if (permit) this.acquired(permit, place);
    else this.state.left(place, monotonicMs(), failure);
    this.steps.soon();
  }
}

/** After so many steps in a row the event loop has a turn, so that calls which do nothing keep no renewal waiting. */
const STEPS_IN_A_ROW = 100;

/** Runs steps: soon after something has happened, one for all that has happened by then; and when one is due. One timer. */
class Steps {
  private isComing = false;
  private row = 0;
  private timer: NodeJS.Timeout | undefined;
  private timerMs = Number.POSITIVE_INFINITY;

  /** Not in the context of the caller that happened to stir it: its token, its trace and its calls' limits are its own. */
  private readonly run = AsyncResource.bind(() => this.runOne());

  /** @param step says when it is due again, on the monotonic clock */
  constructor(private readonly step: () => number) {}

  soon(): void {
    if (this.isComing) return;
    this.isComing = true;
    if (++this.row % STEPS_IN_A_ROW === 0) setImmediate(this.run);
    else queueMicrotask(this.run);
  }

  private runOne(): void {
    this.isComing = false;
    const dueMs = this.step();
    // A timer that rings too early does no harm, and setting it anew for each call would cost more.
    if (dueMs >= this.timerMs && dueMs < Number.POSITIVE_INFINITY) return;
    clearTimeout(this.timer);
    this.timerMs = dueMs;
    if (dueMs === Number.POSITIVE_INFINITY) return;
    const ring = () => {
      this.timerMs = Number.POSITIVE_INFINITY;
      this.soon();
    };
    this.timer = setTimeout(ring, Math.min(Math.max(1, Math.ceil(dueMs - monotonicMs())), MAX_TIMER_MS));
  }
}
