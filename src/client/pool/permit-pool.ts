import { withFencingToken } from '../../fencing/current-token';
import { GivesWay } from '../../shared/acquirer';
import { checkFunction, refuseKind } from '../../shared/check';
import { atOnce, type ResolvedSemaphore } from '../../shared/options';
import { semaphoresFor } from '../../shared/permit-set';
import { priorityOf } from '../../shared/priority';
import type { AcquireContext } from '../holder/acquire';
import { SemaphoreClient } from '../semaphore-client';
import { monotonicMs } from '../server/clock';
import { PermitTimeoutError, PoolClosedError } from '../server/errors';
import { isTransient } from '../server/grpc-errors';
import { onAbort } from '../server/on-abort';
import { PermitSource } from './permit-source';
import {
  type PermitPoolOptions,
  type PoolAcquireOptions,
  type PoolCall,
  resolvePool,
  resolvePoolCall,
} from './pool-options';
import { ANSWER_MS } from './pool-state';
import type { PooledPermit } from './pooled-permit';
import { ResourcePool } from './resource-pool';

/** What a call got within its timeout: a permit, or none because `fullPool` was full. */
type Taken = { readonly permit: PooledPermit } | { readonly permit?: undefined; readonly fullPool: ResourcePool };

function takenOf(permit: PooledPermit | undefined, pool: ResourcePool): Taken {
  return permit ? { permit } : { fullPool: pool };
}

/**
 * Holds permits of a {@link SemaphoreClient} a little longer than one call, and hands them from caller to caller inside this
 * process. For short work: a hand-off in the process takes microseconds, one through the server about 40 ms. Never more calls
 * run at once than permits are held, so the capacity holds over all processes.
 *
 * In the process it is a fair semaphore: by the `priorityKey`, then by arrival. Callers that wait cost memory only. The pool
 * grows while callers wait, and gives back permits that no call uses for `idleFor`. While others wait (other pools, other clients,
 * Workflows), a permit goes back at the end of the call that passes `reuseFor`, and the pool lines up again behind them. Between
 * pools, permits move until each has its equal share.
 *
 * With a limit `perKey`, each call names its `key`, and takes a permit of the key before a permit of the resource. The pool keeps permits
 * of each key as it keeps permits of the resource, while calls of that key come. With each permit of a key that it gives back, it also gives
 * back a permit of the resource.
 *
 * Not guaranteed: all that {@link SemaphoreClient} does not guarantee. A call that waits for another call of the same pool may
 * wait indefinitely. Calls under one permit carry the same fencing token, so a fence can't tell them apart. A killed process
 * costs others one lease for each of its permits.
 *
 * @example
 * ```ts
 * const vendor = new SemaphoreClient(client, 'vendor-api', { capacity: 20 });
 * await using pool = new PermitPool(vendor);
 *
 * await Promise.all(orders.map((order) => pool.withPermit(({ signal }) => callVendor(order, { signal }))));
 * ```
 */
export class PermitPool implements AsyncDisposable {
  /** The name of the shared thing. */
  readonly resource: string;
  private readonly whole: ResourcePool;
  /** The pools of the keys for which calls come, by key. */
  private readonly keys = new Map<string, ResourcePool>();
  /** The closing pools of keys that no call uses any more. */
  private readonly leaving = new Set<Promise<void>>();
  private readonly context: AcquireContext;
  private readonly semaphore: ResolvedSemaphore;
  private readonly rules: ReturnType<typeof resolvePool>;
  private closing: Promise<void> | undefined;

  /**
   * @param client the semaphore whose permits are held; others may use it alongside the pool
   * @throws InvalidOptionsError that says what was expected and what was given
   */
  constructor(client: SemaphoreClient, options: PermitPoolOptions = {}) {
    if (!(client instanceof SemaphoreClient)) refuseKind('semaphore', 'a SemaphoreClient', client);
    this.resource = client.resource;
    this.context = client.context;
    this.semaphore = client.semaphore;
    this.rules = resolvePool(this.semaphore, options);
    // A key whose permit waits for a look at its queue uses no permit of the resource meanwhile, but will do so again.
    const idleForMs = this.rules.idleForMs + (this.semaphore.perKey === undefined ? 0 : ANSWER_MS);
    this.whole = new ResourcePool(this.sourceOf(this.semaphore), { ...this.rules, idleForMs });
  }

  /**
   * Runs `fn` under a permit, and then lets the next caller have the permit. When the permit is lost, `permit.signal` aborts. `fn` must heed
   * the signal: this waits for `fn` in any case. Inside `fn`, `currentFencingToken()` of `temporal-semaphore/fencing` returns the permit's
   * token.
   *
   * @throws PermitLostError when the permit was lost before `fn` was done, even if `fn` returned; its `cause` is what `fn` threw
   * @throws PermitTimeoutError, SelfDeadlockError, PoolClosedError, InvalidOptionsError and ServiceError as {@link acquire} does; `fn` has not
   * run then
   *
   * @example
   * ```ts
   * await pool.withPermit(({ signal }) => callVendor('order-7', { signal }), { timeout: '2s' });
   * ```
   */
  async withPermit<T>(fn: (permit: PooledPermit) => T | Promise<T>, options?: PoolAcquireOptions): Promise<T> {
    checkFunction(fn);
    const permit = await this.acquire(options);
    try {
      const result = await withFencingToken(permit.token, () => fn(permit));
      permit.throwIfLost();
      return result;
    } catch (error) {
      permit.throwIfLost(error);
      throw error;
    } finally {
      permit.release();
    }
  }

  /**
   * Waits for a permit. The caller must release it; prefer {@link withPermit}. While the server can't be reached or is
   * overloaded, callers wait on. With a `key`, the key's own permit stands behind it, and is released with it.
   *
   * @throws PermitTimeoutError when `timeout` is given and no permit came within it; the error names the resource that is full, and says so if
   * no worker polls the task queue
   * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource, if no `timeout` is given
   * @throws PoolClosedError when the pool is closed, or is closed before this caller is served
   * @throws the reason of `signal` when that aborts before this caller is served
   * @throws InvalidOptionsError, before anything else
   * @throws ServiceError when the server refuses, and the pool holds no permit
   *
   * @example
   * ```ts
   * await using permit = await pool.acquire({ timeout: '2s' });
   * await callVendor('order-7', { signal: permit.signal });
   * ```
   */
  async acquire(options?: PoolAcquireOptions): Promise<PooledPermit> {
    const request = resolvePoolCall(options);
    const taken = await this.take(request).catch((error: unknown) => {
      // A server that does not answer says nothing of any slot.
      if (request.timeoutMs > 0 || !isTransient(error)) throw error;
      throw new PermitTimeoutError(this.resource, 0, { cause: error });
    });
    if (!taken.permit) throw await taken.fullPool.timeoutError(request);
    return taken.permit;
  }

  /**
   * Returns an idle permit, or another permit from the server, for which it tries every slot once. Returns `undefined` if there is
   * no such permit, the pool has its `max`, or other callers wait. Throws as {@link acquire} does, except for the timeout.
   *
   * @example
   * ```ts
   * const permit = await pool.tryAcquire();
   * if (permit) await callVendor('order-7', { signal: permit.signal }).finally(() => permit.release());
   * ```
   */
  async tryAcquire(options?: Omit<PoolAcquireOptions, 'timeout'>): Promise<PooledPermit | undefined> {
    const { permit } = await this.take(resolvePoolCall(atOnce<PoolAcquireOptions>(options)));
    return permit;
  }

  /** How many calls run under a permit now. */
  get active(): number {
    return this.whole.active;
  }

  /** How many callers wait for a permit now: of their key, or of the resource. */
  get waiting(): number {
    return this.all.reduce((sum, { waiting }) => sum + waiting, 0);
  }

  /**
   * Resolves when no call runs and no caller waits: at once if that is so now. A pool that is idle keeps its permits for `idleFor`. A call
   * of the pool must not wait for this. Before a {@link close}, it lets all calls finish that were made.
   */
  async idle(): Promise<void> {
    while (this.all.some(({ isUsed }) => isUsed)) await Promise.all(this.all.map((pool) => pool.idle()));
  }

  /**
   * Ends the pool. Calls that run go on, and so do calls made just before that get a permit without a wait: an idle permit, or that of a
   * free slot. Callers that wait for others, and callers that come later, reject with a `PoolClosedError`. Resolves when all calls
   * are done, all permits are given back, and nothing of the pool needs the connection. Idempotent. A call of the pool must not wait for this.
   */
  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  /** `await using pool = new PermitPool(…)` closes it at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private async closeOnce(): Promise<void> {
    if (this.keys.size > 0) {
      await Promise.all([...this.keys.values()].map((pool) => pool.settled()));
      await new Promise(setImmediate); // a call that has a permit of a key asks for a permit of the resource
    }
    await this.whole.settled();
    await Promise.all([...this.all.map((pool) => pool.close()), ...this.leaving]);
  }

  private get all(): readonly ResourcePool[] {
    return [...this.keys.values(), this.whole];
  }

  private async take(request: PoolCall): Promise<Taken> {
    request.signal?.throwIfAborted();
    if (this.closing) throw new PoolClosedError(this.resource);
    const sinceMs = monotonicMs();
    for (;;) {
      const ofKey = this.ofKey(request.key); // a new pool, if the key's permits have gone back meanwhile
      if (!ofKey) return takenOf(await this.whole.ask(request), this.whole);
      const leftMs = Math.max(1, request.timeoutMs - (monotonicMs() - sinceMs));
      const call = { ...request, timeoutMs: request.timeoutMs === 0 ? 0 : leftMs };
      const taken = await this.takeOfKey(ofKey, call, sinceMs);
      if (taken) return taken;
    }
  }

  /** `undefined`: the call has given way to a call of the same key with a higher priority. @param sinceMs when the call was made */
  private async takeOfKey(ofKey: ResourcePool, request: PoolCall, sinceMs: number): Promise<Taken | undefined> {
    const fromMs = monotonicMs();
    const behind = await ofKey.ask(request, sinceMs);
    if (!behind) return { fullPool: ofKey };
    const leftMs = Math.max(1, request.timeoutMs - (monotonicMs() - fromMs));
    const timeoutMs = request.timeoutMs === 0 ? 0 : leftMs;
    // A caller whose key has lost its permit waits no longer.
    const either = new AbortController();
    const signals = request.signal ? [request.signal, behind.signal] : [behind.signal];
    const stops = signals.map((signal) => onAbort(signal, () => either.abort(signal.reason)));
    const giveWay = () => either.abort(new GivesWay());
    let permit: PooledPermit | undefined;
    const priorityKey = priorityOf(request.priority ?? {});
    if (timeoutMs > 0) stops.push(ofKey.admit({ permit: behind, priorityKey, sinceMs, giveWay }));
    try {
      permit = await this.whole.ask({ ...request, timeoutMs, signal: either.signal }, sinceMs);
      return takenOf(permit?.keep(behind), this.whole);
    } catch (error) {
      if (error instanceof GivesWay) return undefined;
      throw error;
    } finally {
      if (!permit) behind.release();
      for (const stop of stops) stop();
    }
  }

  /** Where the permits of the resource, or of one of its keys, come from. */
  private sourceOf(semaphore: ResolvedSemaphore): PermitSource {
    const { server, metrics } = this.context;
    return new PermitSource(server.client, semaphore, metrics);
  }

  /** Each call has a permit of its key. So surplus permits of the resource serve only other processes, such as the next holder of a key's permit. */
  private trimWhole(): void {
    let needed = 0;
    for (const { holding } of this.keys.values()) needed += holding;
    this.whole.trim(needed);
  }

  /**
   * The pool of the key. `undefined` if keys have no limit.
   * @throws InvalidOptionsError when the key is missing, or limits nothing
   */
  private ofKey(key: string | undefined): ResourcePool | undefined {
    const known = key === undefined ? undefined : this.keys.get(key);
    if (known) return known;
    const [semaphore, whole] = semaphoresFor(this.semaphore, key);
    if (!whole || !semaphore || key === undefined) return undefined;
    const leave = () => {
      if (this.keys.get(key) !== pool) return;
      this.keys.delete(key);
      const left = pool.close().finally(() => this.leaving.delete(left));
      this.leaving.add(left);
    };
    const max = Math.min(this.rules.mayGrowTo ?? Number.POSITIVE_INFINITY, semaphore.slots.length);
    const pool = new ResourcePool(this.sourceOf(semaphore), { ...this.rules, max }, leave, () => this.trimWhole());
    this.keys.set(key, pool);
    return pool;
  }
}
