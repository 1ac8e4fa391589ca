import type { Client } from '@temporalio/client';
import { checkFunction } from '../shared/check';
import type { DeclaredSemaphore } from '../shared/declared-limits';
import { checkNotDerived } from '../shared/key-names';
import { atOnce, type ResolvedSemaphore } from '../shared/options';
import { type PermitsOf, type SetEntry, wantedOf } from '../shared/permit-set';
import type { PermitRef } from '../shared/protocol';
import { type AcquireContext, acquirePermit, tryPermit } from './holder/acquire';
import { adoptPermit } from './holder/adopt';
import { Closing } from './holder/closing';
import { asHolder, heldHere, holdWhile } from './holder/hold';
import { callerOf, warnIfForgotten } from './holder/leak-warning';
import { ClientMetrics } from './holder/metrics';
import {
  type ClientAcquireOptions,
  type ClientSetOptions,
  type ClientWithPermitOptions,
  type ResolvedClientAcquire,
  resolveClientAcquire,
  resolveClientSemaphore,
  resolveClientSet,
  type SemaphoreClientOptions,
} from './holder/options';
import type { Permit } from './holder/permit';
import { acquireSet, type PermitSet, type SemaphoreOfSet, type WantedSet, withSet } from './holder/permit-set';
import { PermitTimeoutError } from './server/errors';
import { Pollers } from './server/pollers';
import { checkClient, Server } from './server/server';

/**
 * The same counting semaphore as in Workflows, for everything outside: services, cron jobs, scripts. Clients and Workflows
 * share the permits and the queue. A permit worker must poll its `taskQueue`.
 *
 * Not guaranteed:
 * - that acquirers agree on `capacity`. With two different ones, the larger holds; `inspect` and `ls` show where two differ.
 * - that a caller which holds all permits by `acquire` does not wait for itself. Inside `withPermit` that is refused, or costs nothing
 *   with `reentrant`.
 * - that work stops when its permit is lost. Work that ignores `permit.signal` goes on. A client whose machine slept or whose
 *   process was stopped may wake up without its permit, and write before it checks the signal: check the fencing token at the resource.
 *
 * A client that dies keeps its slot until the end of its lease. Before a process ends, call {@link SemaphoreClient.close}, and then close the
 * connection.
 *
 * @example
 * ```ts
 * const client = new Client({ connection: await Connection.connect() });
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
 *
 * await gpus.withPermit(async (permit) => {
 *   await fetch(`https://gpus.example/${permit.slot}`, { method: 'POST', body: permit.runId, signal: permit.signal });
 * });
 * ```
 */
export class SemaphoreClient implements AsyncDisposable {
  /** The name of the shared thing. */
  readonly resource: string;
  /** @internal */
  readonly semaphore: ResolvedSemaphore;
  /** @internal */
  readonly context: AcquireContext;

  /**
   * @param client a client of the namespace that shares the resource; its identity names the holder
   * @param resource the name of the shared thing; printable, at most 204 bytes of UTF-8
   * @throws InvalidOptionsError that names the expected and the given value
   */
  constructor(client: Client, resource: string, options: SemaphoreClientOptions);
  /**
   * @param client a client of the namespace that shares the resource; its identity names the holder
   * @param declared a `Semaphore` of `temporal-semaphore/workflow` that the application declares for all its callers
   * @param options the options that differ for this client, and a `metricMeter`
   * @throws InvalidOptionsError that names the expected and the given value
   */
  constructor(client: Client, declared: DeclaredSemaphore, options?: Partial<SemaphoreClientOptions>);
  constructor(client: Client, of: string | DeclaredSemaphore, given?: Partial<SemaphoreClientOptions>) {
    const resource = typeof of === 'string' ? of : of?.resource;
    const options = (typeof of === 'string' ? given : { ...of?.declared, ...given }) as SemaphoreClientOptions;
    checkClient(client);
    const server = new Server(client);
    this.semaphore = resolveClientSemaphore(resource, options);
    this.resource = resource;
    this.context = {
      server,
      metrics: new ClientMetrics(options.metricMeter),
      pollers: new Pollers(server, this.semaphore.taskQueue),
      closing: new Closing(server, resource),
    };
  }

  /**
   * Runs `fn` under a permit: acquires the permit, renews it while `fn` runs, and releases it when `fn` returns or throws. When
   * the permit is lost, `permit.signal` aborts. `fn` must heed the signal and throw `signal.reason`: this waits for `fn` in any case. Inside
   * `fn`, `currentFencingToken()` of `temporal-semaphore/fencing` returns this permit's token.
   *
   * If the server refuses the release, this still returns or throws what `fn` did: the work is done, and the lease ends the
   * permit. Node then emits a warning of the type `PermitReleaseWarning`.
   *
   * With `preemptible`, a waiter of higher priority may ask for the permit: `permit.signal` aborts, unless `fn` gives way
   * `atCheckpoints`. If `fn` returns within the grace anyway, its result counts.
   *
   * @throws PermitLostError when the permit was lost before `fn` was done; its `cause` is what `fn` threw. With `how: 'preempted'` when
   * a waiter of higher priority asked for it and `fn` threw
   * @throws PermitTimeoutError, LineFullError, SelfDeadlockError, SemaphoreClosedError, InvalidOptionsError and ServiceError as
   * {@link acquire} does; `fn` has not run then
   * @throws the reason of the option `signal` if the signal aborts before `fn` runs
   *
   * @example
   * ```ts
   * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
   * await gpus.withPermit((permit) => train(permit.slot, { signal: permit.signal }), { timeout: '5m', purpose: 'nightly' });
   * ```
   */
  async withPermit<T>(fn: (permit: Permit) => T | Promise<T>, options: ClientWithPermitOptions = {}): Promise<T> {
    checkFunction(fn);
    return await this.track(this.hold(fn, options));
  }

  private async hold<T>(fn: (permit: Permit) => T | Promise<T>, options: ClientWithPermitOptions): Promise<T> {
    const { adopt: ref, ...rest } = options ?? {};
    const acquire = this.acquireOptions(options && rest);
    if (ref) return await holdWhile(await adoptPermit(this.context, this.semaphore, ref), fn);
    const outer = this.semaphore.reentrant ? heldHere.find(this.resource, acquire.key) : undefined;
    if (outer) return await asHolder(outer, fn);
    if (this.isKeyed(acquire)) {
      return await withSet(this.wanted(acquire), acquire, ([permit]) => asHolder(permit as Permit, fn));
    }
    return await holdWhile(await acquirePermit(this.context, this.semaphore, acquire), fn);
  }

  /**
   * Waits for a free slot and claims it. The permit renews itself until it is released, detached or lost. Prefer
   * {@link withPermit}. While the server can't be reached or is overloaded, this goes on trying. With a `key`, the permit also holds the
   * key's own permit, which is renewed and released with it.
   *
   * If its caller neither releases the permit in a whole lease nor checks whether it is lost (`permit.signal`, `permit.isHeld`), a Node
   * warning with the code `TEMPORAL_SEMAPHORE_FORGOTTEN` says where it was acquired.
   *
   * If no worker polls the task queue, a wait of more than two seconds emits a Node warning with the code
   * `TEMPORAL_SEMAPHORE_UNPOLLED`, once for each client.
   *
   * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource, if no `timeout` is given
   * @throws LineFullError when as many as `maxWaiting` wait already
   * @throws PermitTimeoutError when no permit came within `timeout`; its message says so if no worker polls the task queue
   * @throws the reason of `signal` when the signal aborts; a slot won meanwhile is released at once, even after this has thrown
   * @throws SemaphoreClosedError when this client is closed, or is closed meanwhile
   * @throws InvalidOptionsError before any call
   * @throws ServiceError when the server refuses, for example because the caller lacks permission, or the connection is closed
   *
   * @example
   * ```ts
   * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
   * const permit = await gpus.acquire({ timeout: '5m' });
   * try {
   *   await train(permit.slot, { signal: permit.signal });
   * } finally {
   *   await permit.release();
   * }
   * ```
   */
  async acquire(options?: ClientAcquireOptions): Promise<Permit> {
    const place = callerOf(this.acquire);
    const acquire = this.acquireOptions(options);
    return this.handOut(await this.track(this.acquireAny(acquire)), place);
  }

  private async acquireAny(acquire: ResolvedClientAcquire): Promise<Permit> {
    if (!this.isKeyed(acquire)) return await acquirePermit(this.context, this.semaphore, acquire);
    return (await acquireSet(this.wanted(acquire), acquire)).permits[0] as Permit;
  }

  /**
   * Tries every slot once. Returns `undefined` if all are held. With `fair`, if a wait queue runs, this waits in the queue for a
   * second instead, so that it overtakes no waiter. Throws as {@link acquire} does, except for PermitTimeoutError: if the server does
   * not answer within a second, this throws the `ServiceError`.
   *
   * @example
   * ```ts
   * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
   * const permit = await gpus.tryAcquire();
   * if (permit) {
   *   try {
   *     await train('small', { signal: permit.signal });
   *   } finally {
   *     await permit.release();
   *   }
   * }
   * ```
   */
  async tryAcquire(options?: Omit<ClientAcquireOptions, 'timeout'>): Promise<Permit | undefined> {
    const place = callerOf(this.tryAcquire);
    const permit = await this.track(this.tryOnce(this.acquireOptions(atOnce<ClientAcquireOptions>(options))));
    return permit && this.handOut(permit, place);
  }

  private async tryOnce(acquire: ResolvedClientAcquire): Promise<Permit | undefined> {
    if (!this.isKeyed(acquire)) return await tryPermit(this.context, this.semaphore, acquire);
    const set = await acquireSet(this.wanted(acquire), acquire).catch(noneInTime);
    return set?.permits[0] as Permit | undefined;
  }

  /**
   * Takes over a permit that another client acquired, or a Workflow (with `outlivesRun`). It renews the lease, and from now on
   * this side renews and releases the permit. The holder before must have detached it (`permit.detach()`). An adopted permit does not
   * know its `maxHold`: if this side can't reach the server when `maxHold` ends the permit, it is notified late.
   *
   * @param ref the reference that `permit.ref()` or `permit.detach()` returned
   * @throws PermitLostError when the permit has ended or never existed; `how` tells how it ended
   * @throws the last error of the server if it can't be reached for a whole lease
   * @throws SemaphoreClosedError when this client is closed
   * @throws InvalidOptionsError when `ref` is no reference to a permit of this resource
   *
   * @example
   * ```ts
   * import type { PermitRef } from 'temporal-semaphore/client';
   *
   * // Another process acquired the permit, and sent permit.detach() here as JSON.
   * const ref: PermitRef = JSON.parse(body);
   * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
   * const permit = await gpus.adopt(ref);
   * try {
   *   await train(permit.slot, { signal: permit.signal });
   * } finally {
   *   await permit.release();
   * }
   * ```
   */
  async adopt(ref: PermitRef): Promise<Permit> {
    return this.handOut(await this.track(adoptPermit(this.context, this.semaphore, ref)));
  }

  /**
   * Refuses callers that wait or come later, with a {@link SemaphoreClosedError}. Lets each `withPermit` that runs its function finish. Gives
   * back the permits that {@link acquire}, {@link tryAcquire}, {@link acquireAll} or {@link adopt} have handed out: their `signal` aborts first,
   * with a `PermitLostError` with `how: 'released'`. Resolves when all of that is done, and nothing of this client needs the connection; if the
   * server can't be reached, when the leases of the permits have ended. Idempotent. A function under a permit must not wait for this. A
   * {@link PermitPool} of this client has its own `close`.
   *
   * @example
   * ```ts
   * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
   * process.once('SIGTERM', () => void gpus.close().then(() => client.connection.close()));
   * ```
   */
  close(): Promise<void> {
    return this.context.closing.close();
  }

  /** `await using gpus = new SemaphoreClient(…)` closes it at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal This semaphore as a member of a set. @throws InvalidOptionsError */
  get ofSet(): SemaphoreOfSet {
    checkNotDerived(this.resource); // an operator may use such a name
    return { ...this.semaphore, context: this.context };
  }

  private acquireOptions(options: ClientAcquireOptions | undefined): ResolvedClientAcquire {
    checkNotDerived(this.resource); // an operator may use such a name
    return resolveClientAcquire(this.semaphore, options);
  }

  /** Whether the acquire also takes a permit of the key. */
  private isKeyed({ key }: ResolvedClientAcquire): boolean {
    return this.semaphore.perKey !== undefined || key !== undefined;
  }

  private wanted({ key }: ResolvedClientAcquire): WantedSet {
    return [{ semaphore: this.ofSet, key }];
  }

  /** Has {@link close} wait for the call. */
  private track<T>(call: Promise<T>): Promise<T> {
    return this.context.server.track(call);
  }

  /** From now on, the caller releases the permit, or {@link close} does. @throws SemaphoreClosedError */
  private handOut(permit: Permit, place?: Error): Permit {
    this.context.closing.handOut(permit);
    if (place) warnIfForgotten([permit], place);
    return permit;
  }
}

function noneInTime(error: unknown): undefined {
  if (!(error instanceof PermitTimeoutError)) throw error;
}

/**
 * Runs `fn` under permits of several resources: acquires them as {@link acquireAll} does, and releases them when `fn` returns or
 * throws. When a permit is lost, the `signal` that `fn` gets aborts, and `fn` must heed it. Each permit has its own token: pass to a
 * resource the token of the permit that protects it. A release that fails only warns, as in `withPermit`.
 *
 * @throws PermitLostError that names the lost permit; its `cause` is what `fn` threw
 * @throws PermitTimeoutError that names the resource without a free permit; `fn` has not run then
 *
 * @example
 * ```ts
 * import { SemaphoreClient, withPermits } from 'temporal-semaphore/client';
 *
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
 * const licences = new SemaphoreClient(client, 'licences', { capacity: 5 });
 *
 * await withPermits([gpus, licences], async ([gpu, licence], signal) => {
 *   await fetch(`https://gpus.example/${gpu.slot}`, { method: 'POST', body: licence.slot, signal });
 * });
 * ```
 */
export async function withPermits<const Entries extends readonly SetEntry<SemaphoreClient>[], T>(
  entries: Entries,
  fn: (permits: PermitsOf<Entries, Permit>, signal: AbortSignal) => T | Promise<T>,
  options?: ClientSetOptions,
): Promise<T> {
  checkFunction(fn);
  const { wanted, acquire } = resolveSet(entries, options);
  const held = withSet(wanted, acquire, (permits, signal) =>
    fn(permits as unknown as PermitsOf<Entries, Permit>, signal),
  );
  return await trackAll(wanted, held);
}

/**
 * Acquires a permit of each resource: all, or none. Whatever order their code lists the resources in, all callers claim in one order, by the
 * bytes of the resources' names (a key's own permit before its resource). So no two callers can deadlock. Permits that the caller holds
 * already renew themselves while it waits for others. The `timeout` covers all permits together, and the caller keeps its age in every
 * queue.
 *
 * Not guaranteed: freedom from deadlock with callers that nest `withPermit` by hand in another order.
 *
 * When this throws, the caller holds nothing; a slow server may carry out the releases a moment later.
 *
 * @throws PermitTimeoutError that names the resource without a free permit
 * @throws PermitLostError when one was lost during the wait for another
 * @throws the reason of `signal` when that aborts
 * @throws SemaphoreClosedError when one of the clients is closed, or is closed meanwhile
 * @throws SelfDeadlockError inside `withPermit`s that hold all permits of one of the resources, if no `timeout` is given
 * @throws InvalidOptionsError, before any call, also when a resource comes twice
 *
 * @example
 * ```ts
 * import { acquireAll, SemaphoreClient } from 'temporal-semaphore/client';
 *
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
 * const licences = new SemaphoreClient(client, 'licences', { capacity: 5 });
 * const set = await acquireAll([gpus, licences], { timeout: '10m' });
 * const [gpu, licence] = set.permits;
 * try {
 *   await train(gpu.slot, licence.slot, { signal: set.signal });
 * } finally {
 *   await set.release();
 * }
 * ```
 */
export async function acquireAll<const Entries extends readonly SetEntry<SemaphoreClient>[]>(
  entries: Entries,
  options?: ClientSetOptions,
): Promise<PermitSet<PermitsOf<Entries, Permit>>> {
  const place = callerOf(acquireAll);
  const { wanted, acquire } = resolveSet(entries, options);
  const set = await trackAll(wanted, acquireSet(wanted, acquire));
  try {
    for (const [at, permits] of set.permits.entries()) {
      for (const permit of [permits].flat()) wanted[at]?.semaphore.context.closing.handOut(permit);
    }
  } catch (error) {
    await set.releaseOrWarn(); // one of the clients was closed at this moment
    throw error;
  }
  warnIfForgotten(set.permits.flat(), place);
  return set as unknown as PermitSet<PermitsOf<Entries, Permit>>;
}

/** Has the `close` of each client wait for the call. */
function trackAll<T>(wanted: WantedSet, call: Promise<T>): Promise<T> {
  for (const { semaphore } of wanted) void semaphore.context.server.track(call);
  return call;
}

function resolveSet(entries: readonly SetEntry<SemaphoreClient>[], options: ClientSetOptions | undefined) {
  const acquire = resolveClientSet(options);
  return { acquire, wanted: wantedOf(entries, (of) => (of instanceof SemaphoreClient ? of.ofSet : undefined)) };
}
