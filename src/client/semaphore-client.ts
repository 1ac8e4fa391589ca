import type { Client } from '@temporalio/client';
import type { Acquirer } from '../shared/acquirer';
import { ADOPT } from '../shared/adoption-protocol';
import { refuse } from '../shared/invalid-options';
import { checkNoKeyPool } from '../shared/key-pool';
import { Lease } from '../shared/lease';
import { resolveRef } from '../shared/permit-id';
import { type OnPreempted, resolveOnPreempted, waitingAgain } from '../shared/preemption';
import type { PermitRef } from '../shared/protocol';
import { orInline, splitSaturation } from '../shared/saturation';
import { monotonicMs } from './clock';
import { PermitLostError, PermitTimeoutError } from './errors';
import { clientAcquirer } from './holder/acquirer';
import { checkSelfDeadlock } from './holder/held-here';
import { Permit } from './holder/permit';
import { PermitRun } from './holder/permit-run';
import { acquireSet, type ClientPool, type PermitSet, underSet, type WantedSet } from './holder/permit-set';
import { runUnder, underPreemptible, withToken } from './holder/run-under';
import { ClientMetrics } from './metrics';
import type { Inspection, Override, PermitInspection } from './operator/inspection';
import {
  type InspectOptions,
  Operator,
  type OverrideOptions,
  type PauseOptions,
  type RevokeOptions,
} from './operator/operator';
import {
  type ClientAcquireOptions,
  type ClientWithPermitOptions,
  type Moment,
  type Request,
  resolveAdoption,
  resolveClientSemaphore,
  resolveRequest,
  type SemaphoreClientOptions,
} from './options';
import { Pollers } from './pollers';
import { PermitSource } from './pool/permit-source';
import { isTransient, Server } from './server';

type Unsaturated<T> = ClientAcquireOptions & { onPreempted?: OnPreempted<Permit, T> };
type HoldOptions<T> = ClientWithPermitOptions & Unsaturated<T>;

/** How many slots an acquirer tries before it lines up. Each try is one call. */
const FIRST_TRIES = 3;

/** How long an acquire that does not wait for a slot waits for the server's answers. */
const NO_WAIT_MS = 10_000;

/** How long an adoption that finds its permit gone asks how it ended. */
const HOW_MS = 5_000;

/**
 * The same counting semaphore as in Workflows, for everything outside: services, cron jobs, scripts. Clients and Workflows
 * share the permits and the queue. A worker on `taskQueue` must have this package's Workflows.
 *
 * Not guaranteed:
 * - that acquirers agree on `capacity`. With two different ones, the larger holds; `inspect` and `ls` show where two differ.
 * - that a caller which holds all permits by `acquire` does not wait for itself. Inside `withPermit` that is refused. A permit
 *   is not reentrant, since it has one token.
 * - that work stops when its permit is lost. Work that ignores `permit.signal` goes on. A client whose machine slept or whose
 *   process was stopped may wake up without its permit, and write before it looks: check the fencing token at the resource.
 *
 * A client that dies keeps its slot until the end of its lease.
 *
 * @example
 * ```ts
 * const client = new Client({ connection: await Connection.connect() });
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3, taskQueue: 'permits' });
 *
 * await gpus.withPermit(async (permit) => {
 *   await fetch(`https://gpus.example/${permit.slot}`, { method: 'POST', body: permit.runId, signal: permit.signal });
 * });
 * ```
 */
export class SemaphoreClient {
  readonly resource: string;
  private readonly server: Server;
  private readonly options: SemaphoreClientOptions;
  private readonly metrics: ClientMetrics;
  private readonly operator: Operator;
  private readonly pollers: Pollers;

  /**
   * @param client a client of the namespace that shares the resource; its identity names the holder
   * @param resource the name of the shared thing; printable, at most 204 bytes of UTF-8
   * @throws InvalidOptionsError that names the expected and the given value
   */
  constructor(client: Client, resource: string, options: SemaphoreClientOptions) {
    if (typeof client?.workflow?.start !== 'function')
      refuse('client', 'a Client of @temporalio/client', typeof client);
    this.server = new Server(client);
    const semaphore = resolveClientSemaphore(resource, options);
    this.operator = new Operator(this.server, semaphore);
    this.pollers = new Pollers(this.server, semaphore.taskQueue);
    this.resource = resource;
    this.options = { ...options };
    this.metrics = new ClientMetrics(options.metricMeter);
  }

  /**
   * Runs `fn` under a permit: acquires one, renews it while `fn` runs, and releases it when `fn` returns or throws. When
   * the permit is lost, `permit.signal` aborts. `fn` must heed it: this waits for `fn` in any case. Inside `fn`,
   * `currentFencingToken()` of `temporal-semaphore/fencing` gives this permit's token.
   *
   * When the server refuses the release, this still returns or throws what `fn` did: the work is done, and the lease ends the
   * permit. Node then emits a warning of the type `PermitReleaseWarning`.
   *
   * With `onSaturated: 'inline'` it runs `fn` without a permit when there is none to be had. A server that can't be reached is no
   * such case.
   *
   * With `preemptible`, a waiter of higher priority may ask for the permit: `permit.signal` aborts, unless `fn` gives way
   * `atCheckpoints`. `onPreempted` says what comes then. If `fn` returns within the grace all the same, its result counts.
   *
   * @throws PermitLostError when the permit was lost before `fn` was done, whatever `fn` returned or threw
   * @throws PermitPreemptedError when it was pre-empted, and `onPreempted` is `'reject'`, whatever `fn` threw
   * @throws PermitTimeoutError and LineFullError as {@link acquire} does; `fn` has not run then
   */
  async withPermit<T>(
    fn: (permit: Permit | undefined) => Promise<T>,
    options: HoldOptions<T> & { onSaturated: 'inline' },
  ): Promise<T>;
  async withPermit<T>(fn: (permit: Permit) => Promise<T>, options?: HoldOptions<T>): Promise<T>;
  async withPermit<T>(fn: (permit: Permit) => Promise<T>, options?: HoldOptions<T>): Promise<T> {
    const { inline, acquire } = splitSaturation<Unsaturated<T>>(options);
    if (!inline) return await this.underPermit(fn, acquire);
    return await orInline((held) => this.underPermit(held, acquire), fn as (permit?: Permit) => Promise<T>);
  }

  private async underPermit<T>(fn: (permit: Permit) => Promise<T>, options?: Unsaturated<T>): Promise<T> {
    const request = this.request(options);
    const onPreempted = resolveOnPreempted(options?.onPreempted, request);
    if (request.permits !== undefined) refuse('permits', 'none: withPermits(n, fn) takes several', request.permits);
    if (this.isSet(request)) {
      return await underSet(this.wanted(request), request, ([permit]) => withToken(permit as Permit, fn));
    }
    checkSelfDeadlock([{ pool: request.semaphore }], request);
    const permit = await this.acquireAlone(request);
    return await (request.preemptible ? underPreemptible(permit, fn, onPreempted) : runUnder(permit, fn));
  }

  /**
   * Runs `fn` under so many permits of this resource, all or none: as {@link withPermit} does for one, with the options of one
   * acquire. When one is lost, the `signal` that `fn` gets aborts. Each permit has a token of its own.
   *
   * Of those that want more than one, a single one at a time keeps a part while it waits for the rest, in the order in which
   * they came. While it accumulates, it holds the only permit of the pool `<resource>~set` too.
   *
   * @param permits at most the capacity
   * @throws as {@link withPermit} does
   */
  async withPermits<T>(
    permits: number,
    fn: (permits: Permit[], signal: AbortSignal) => Promise<T>,
    options?: Omit<ClientAcquireOptions, 'permits'>,
  ): Promise<T> {
    const request = this.request({ ...options, permits });
    return await underSet(this.wanted(request), request, ([all], signal) => fn(all as Permit[], signal));
  }

  /**
   * Waits for a free slot and claims it. The permit renews itself until it is released, detached or lost. Prefer
   * {@link withPermit}. While the server can't be reached or is overloaded, this goes on trying.
   *
   * When nobody polls the task queue, a wait of more than two seconds emits a Node warning with the code
   * `TEMPORAL_SEMAPHORE_UNPOLLED`, once for each client.
   *
   * With `permits` it gives a {@link PermitSet}, as {@link withPermits} takes it. With a `key` it gives a set of one permit, and the
   * set holds the key's own permit behind it.
   *
   * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource, if no `timeout` is given
   * @throws LineFullError when as many as `maxWaiting` wait already
   * @throws PermitTimeoutError when no permit came within `timeout`, or within its `attempts`; its message says when nobody polls the task queue
   * @throws the reason of `signal` when that aborts; a slot won meanwhile has been released
   * @throws InvalidOptionsError before any call
   * @throws ServiceError when the server refuses, for example because the caller lacks permission
   */
  async acquire(options: ClientAcquireOptions & ({ key: string } | { permits: number })): Promise<PermitSet>;
  async acquire(options?: Omit<ClientAcquireOptions, 'key' | 'permits'>): Promise<Permit>;
  async acquire(options?: ClientAcquireOptions): Promise<Permit | PermitSet> {
    const request = this.request(options);
    if (this.isSet(request)) return await this.acquireSet(request);
    checkSelfDeadlock([{ pool: request.semaphore }], request);
    return await this.acquireAlone(request);
  }

  /** @internal How many slots this client was made with. */
  get slotCount(): number {
    return this.options.slots?.length ?? this.options.capacity ?? 0;
  }

  /** @internal Checks what one acquire is to be. @throws InvalidOptionsError */
  request(options: ClientAcquireOptions | undefined, since?: Moment): Request {
    checkNoKeyPool(this.resource); // to operate it is fine
    return resolveRequest(this.resource, this.options, options, since);
  }

  /** @internal As a part of a set. */
  poolOf({ semaphore }: Request): ClientPool {
    return { ...semaphore, client: this };
  }

  /** One acquire of one permit, which can line up again: in strict order, for the slot that was given up is for those before it. */
  private async acquireAlone(request: Request): Promise<Permit> {
    return await this.acquireFor({ ...request, again: () => this.acquireAgain(request) });
  }

  /** With the old place. The timeout counts anew. */
  private async acquireAgain(request: Request): Promise<Permit> {
    const since = { ...request.since, monotonicMs: monotonicMs() };
    const semaphore = { ...request.semaphore, fair: true };
    return await this.acquireAlone({ ...request, ...waitingAgain(request), since, semaphore });
  }

  /** @internal One acquire of this pool, alone or as a part of a set. */
  async acquireFor(request: Request): Promise<Permit> {
    request.signal.throwIfAborted();
    return await this.metrics.acquire(request.semaphore.resource, request.signal, async () => {
      if (request.timeoutMs > 0) return await this.acquireWithin(request);
      const permit = await this.claimEvery(request);
      if (permit) return permit;
      // The server has just said that all slots are held.
      const { unpolled } = await this.pollers.circumstances();
      throw new PermitTimeoutError(request.semaphore.resource, 0, { unpolled });
    });
  }

  /** Tries every slot once. `undefined` when all are held. Throws as {@link acquire} does, except PermitTimeoutError. */
  async tryAcquire(
    options: Omit<ClientAcquireOptions, 'timeout'> & ({ key: string } | { permits: number }),
  ): Promise<PermitSet | undefined>;
  async tryAcquire(options?: Omit<ClientAcquireOptions, 'timeout' | 'key' | 'permits'>): Promise<Permit | undefined>;
  async tryAcquire(options?: Omit<ClientAcquireOptions, 'timeout'>): Promise<Permit | PermitSet | undefined> {
    const request = this.request({ ...options, timeout: 0 });
    if (this.isSet(request)) return await this.acquireSet(request).catch(noneInTime);
    request.signal.throwIfAborted();
    const again = () => this.acquireAgain(request);
    return await this.metrics.acquire(this.resource, request.signal, () => this.claimEvery({ ...request, again }));
  }

  /**
   * Takes over a permit that another client acquired, or a Workflow (with `outlivesRun`). It renews the lease, and from now on
   * this side renews and releases the permit. The holder before must have detached it (`permit.detach()`). An adopted permit does not
   * know its `maxHold`: when this side can't reach the server then, it learns of that end late.
   *
   * @param ref the reference that `permit.ref()` or `permit.detach()` returned
   * @throws PermitLostError when the permit has ended, which says how, or never was; the last error when the server can't be reached for a whole lease
   */
  async adopt(ref: PermitRef, { renewEvery }: Pick<SemaphoreClientOptions, 'renewEvery'> = {}): Promise<Permit> {
    const reference = resolveRef(ref);
    if (reference.resource !== this.resource) refuse('ref', `a permit of "${this.resource}"`, reference.resource);
    const { leaseMs } = reference;
    const { renewEveryMs } = resolveAdoption(this.resource, this.options, leaseMs, renewEvery);
    const run = new PermitRun(this.server, reference);
    const untilMs = monotonicMs() + leaseMs;
    let sentMs = 0;
    const adopt = () => {
      sentMs = monotonicMs();
      return run.send(ADOPT, undefined, { holder: { identity: this.server.identity } });
    };
    const delivered = await this.server.persist(adopt, { untilMs, signal: new AbortController().signal });
    if (!delivered) {
      const end = await run.end(AbortSignal.timeout(HOW_MS)).catch(() => undefined);
      throw new PermitLostError(reference, reference.runId, end?.how ?? 'unknown', end?.reason);
    }
    const lease = new Lease(leaseMs, sentMs, Number.POSITIVE_INFINITY, monotonicMs);
    return this.metrics.watch(new Permit(run, reference, lease, renewEveryMs, this.pollers));
  }

  /**
   * Shows the holders, the waiters in order, and what an operator has set. It asks the server about each slot, and workers for
   * the rest. Each slot is exact, but the whole is no snapshot: a permit can change hands between two answers. When no worker
   * answers within two seconds, the result says so and leaves out what only workers know. It writes nothing anywhere.
   */
  async inspect(options?: InspectOptions): Promise<Inspection> {
    return await this.operator.inspect(options);
  }

  /**
   * Takes a permit away, and resolves with it when the slot is free. The next waiter may hold the slot a moment later. The
   * holder learns of it at once, with the reason: `withPermit` cancels its function, or aborts its `signal`, and throws
   * `PermitLostError`. Until it has learned, the holder may still write: the fencing token guards against that.
   *
   * @throws NotHeldError when nobody holds the slot, or another run than `runId` does
   * @throws NoAnswerError when no worker has ended the permit within `timeout`; it may end later
   */
  async revoke(slot: string, options?: RevokeOptions): Promise<PermitInspection> {
    return await this.operator.revoke(slot, options);
  }

  /**
   * Changes how many slots are in use, at run time and for everybody, until the next change. The wait queue keeps it.
   * With fewer slots, held ones stay held, and go out of use as they come free. Free ones are out of use when this resolves, or after 5 s
   * at the latest (20 slots take about a second). With more, the queue offers further slots
   * (`"3"`, `"4"`) to the waiters; named slots can't grow. The capacity that this client was made with ends the override.
   *
   * @param capacity from 1 to 1,000; to use no slots at all, {@link pause}
   * @returns what is set now; `version` grows with every change
   * @throws StaleOverrideError when the override has another version than `ifVersion`; nothing has changed
   * @throws NoAnswerError when no worker has answered within `timeout`; the change may still take effect
   */
  async resize(capacity: number, options?: OverrideOptions): Promise<Override> {
    return await this.operator.resize(capacity, options);
  }

  /**
   * Takes all slots out of use as they come free, the free ones before this resolves, until {@link resume} or the time `until`. Waiters go on waiting. Throws as
   * {@link resize} does.
   */
  async pause(options?: PauseOptions): Promise<Override> {
    return await this.operator.pause(options);
  }

  /**
   * {@link pause} until that time: for a 429 that says when to come back. The wait queue keeps the pause and ends it, also when
   * this process is long gone. A pause that ends later, or without an end, stays as it is.
   *
   * @returns what is set now
   *
   * @example
   * ```ts
   * await vendor.pauseUntil(new Date(Date.now() + retryAfterSeconds * 1_000), { reason: '429' });
   * ```
   */
  async pauseUntil(until: Date, options?: Omit<PauseOptions, 'until'>): Promise<Override> {
    if (until === undefined) refuse('until', 'a Date in the future', until);
    return await this.operator.pause({ ...options, until });
  }

  /** Ends a pause. A capacity that {@link resize} has set stays. Throws as {@link resize} does. @returns the override that is left, if any */
  async resume(options?: Omit<OverrideOptions, 'reason'>): Promise<Override | undefined> {
    return await this.operator.resume(options);
  }

  /** Whether it takes more than one permit. */
  private isSet({ key, permits }: Request): boolean {
    return this.options.perKey !== undefined || key !== undefined || permits !== undefined;
  }

  private wanted(request: Request): WantedSet {
    const { key, permits } = request;
    return [{ pool: this.poolOf(request), key, permits }];
  }

  private async acquireSet(request: Request): Promise<PermitSet> {
    const { key, permits = 1 } = request;
    return (await acquireSet([{ pool: this.poolOf(request), key, permits }], request)).flat();
  }

  private async acquireWithin(request: Request): Promise<Permit> {
    const served = new AbortController();
    void this.pollers.warn(served.signal);
    const deadlineMs = request.since.monotonicMs + request.timeoutMs;
    const circumstances = this.pollers.circumstancesAt(deadlineMs, served.signal);
    try {
      const permit = await this.acquirer(request, deadlineMs).acquire();
      if (permit) return permit;
    } catch (error) {
      request.signal.throwIfAborted(); // its reason, such as a lost part of a set, may look like a failed call
      if (!isTransient(error)) throw error; // a transient error comes through only at the deadline
      throw new PermitTimeoutError(request.semaphore.resource, request.timeoutMs, { cause: error });
    } finally {
      served.abort();
    }
    // A waiter that hears nothing may have lost the server meanwhile, or the permits their workers.
    throw new PermitTimeoutError(request.semaphore.resource, request.timeoutMs, await circumstances);
  }

  /** Tries every slot once. */
  private async claimEvery(request: Request): Promise<Permit | undefined> {
    return await this.acquirer(request, monotonicMs() + NO_WAIT_MS).tryOnce(request.attempts);
  }

  /** @internal For `PermitPool`. */
  permitSource(): PermitSource {
    const semaphore = resolveClientSemaphore(this.resource, this.options);
    return new PermitSource(this.server.client, semaphore, this.metrics);
  }

  private acquirer(request: Request, deadlineMs: number): Acquirer<Permit> {
    const triesBeforeJoin = request.semaphore.fair ? 0 : Number.POSITIVE_INFINITY;
    return clientAcquirer(this.server, request, {
      deadlineMs,
      firstTries: FIRST_TRIES,
      triesBeforeJoin,
      metrics: this.metrics,
    });
  }
}

function noneInTime(error: unknown): undefined {
  if (!(error instanceof PermitTimeoutError)) throw error;
}
