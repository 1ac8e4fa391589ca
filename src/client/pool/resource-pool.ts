import { AsyncResource } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { GivesWay } from '../../shared/acquirer';
import type { AcquireOutcome } from '../../shared/metrics';
import { priorityOf } from '../../shared/priority';
import { heldHere } from '../holder/hold';
import type { Permit } from '../holder/permit';
import { releaseOrWarn } from '../holder/release';
import { MAX_TIMER_MS, monotonicMs } from '../server/clock';
import { PermitTimeoutError, PoolClosedError } from '../server/errors';
import { isTransient } from '../server/grpc-errors';
import { onAbort } from '../server/on-abort';
import { type AdmittedCall, AdmittedCalls } from './admitted-calls';
import { LineEntry } from './caller-line';
import type { PermitSource } from './permit-source';
import type { PoolCall } from './pool-options';
import type { Place } from './pool-sizing';
import { type Held, type PoolCommand, type PoolRules, PoolState } from './pool-state';
import { PooledPermit } from './pooled-permit';

/** A call of this process that waits for a permit. */
class WaitingCall extends LineEntry {
  stopListening = () => {};

  constructor(
    readonly request: PoolCall,
    sinceMs: number,
    readonly resolve: (permit: PooledPermit | undefined) => void,
    readonly reject: (error: unknown) => void,
  ) {
    super(priorityOf(request.priority ?? {}), monotonicMs() + request.timeoutMs, sinceMs);
  }
}

/** The permits of one resource that a process keeps. It carries out what {@link PoolState} decides. */
export class ResourcePool {
  private readonly state: PoolState<WaitingCall, Permit>;
  private readonly steps = new Steps(() => this.step());
  /** The call that runs under each permit. */
  private readonly calls = new Map<Held<Permit>, PooledPermit>();
  private readonly places = new Map<Place, AbortController>();
  private readonly held = new Set<Held<Permit>>();
  /** In the pool of a key: calls that wait for a permit of the resource. */
  private readonly admitted: AdmittedCalls;
  private readonly stop = new AbortController();
  private closing: Promise<void> | undefined;
  private emptied = () => {};
  /** Called once no try is under way. */
  private tried: (() => void)[] = [];
  /** Called once no call runs and no caller waits. */
  private left: (() => void)[] = [];

  /**
   * @param whenLeft is called when no permit is held, no call runs and no caller waits
   * @param whenFewer is called when a permit goes back, or is lost
   */
  constructor(
    private readonly source: PermitSource,
    private readonly rules: Omit<PoolRules, 'id'>,
    private readonly whenLeft: () => void = () => undefined,
    private readonly whenFewer: () => void = () => undefined,
  ) {
    this.admitted = new AdmittedCalls(rules.reuseForMs);
    this.state = new PoolState({ ...rules, id: source.poolId }, ({ signal }) => !signal.aborted);
    setMaxListeners(0, this.stop.signal); // one for each call to the server
  }

  get resource(): string {
    return this.source.semaphore.resource;
  }

  /** How many calls run under a permit. */
  get active(): number {
    return this.calls.size;
  }

  /** How many permits are held, without those that are being given back. */
  get holding(): number {
    return this.state.holding;
  }

  /** How many callers wait. */
  get waiting(): number {
    return this.state.waiting;
  }

  get isUsed(): boolean {
    return this.active > 0 || this.waiting > 0;
  }

  /** The error of a caller that got no permit in time. */
  async timeoutError({ timeoutMs }: PoolCall): Promise<PermitTimeoutError> {
    // If the pool holds a permit that is not on its way back, a worker runs the permits.
    const own = heldHere.ownWait(this.source.semaphore);
    const circumstances = this.holding === 0 ? { ...(await this.source.circumstances()), own } : {};
    return new PermitTimeoutError(this.resource, timeoutMs, circumstances);
  }

  /** `undefined` if no permit came in time. @param sinceMs when the call was made: its place among equals */
  async ask(request: PoolCall, sinceMs = monotonicMs()): Promise<PooledPermit | undefined> {
    request.signal?.throwIfAborted(); // it may have, while the caller waited for a permit of its key
    if (this.closing) throw new PoolClosedError(this.resource);
    if (this.held.size === 0) heldHere.checkSelfDeadlock([this.source.semaphore], request);
    return await new Promise((resolve, reject) => {
      const caller = new WaitingCall(request, sinceMs, resolve, reject);
      this.listen(caller, request.signal);
      if (request.timeoutMs > 0) this.state.enqueue(caller);
      else this.state.tryOnce(caller);
      this.steps.soon();
    });
  }

  /** From now on, the call gives way to callers of higher priority. @returns a function to call when it waits no longer, or has given way */
  admit(call: AdmittedCall): () => void {
    this.admitted.add(call, monotonicMs());
    this.steps.soon();
    return () => {
      if (this.admitted.delete(call)) this.steps.soon();
    };
  }

  private makeWay(nowMs: number): void {
    if (this.admitted.isLookDue(nowMs)) {
      this.state.lookNow(nowMs);
      this.steps.soon();
    }
    const isRipe = (permit: PooledPermit) =>
      [...this.calls].some(([{ sinceMs }, call]) => call === permit && nowMs >= sinceMs + this.rules.reuseForMs);
    this.admitted.makeWay(this.state.priorityKey, this.state.owed > 0, isRipe);
  }

  /** Gives back idle permits, until the pool holds only `needed` permits. */
  trim(needed: number): void {
    this.state.trim(needed);
    this.steps.soon();
  }

  /** Resolves when no call runs and no caller waits. */
  async idle(): Promise<void> {
    if (this.isUsed) await new Promise<void>((resolve) => this.left.push(resolve));
  }

  /** Resolves when the present callers have got what they can get without a wait: an idle permit, or what a try brings. */
  async settled(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.tried.push(resolve);
      this.steps.soon();
    });
  }

  /** Refuses callers that wait or come later. Resolves when all calls are done, and no permit is held. Idempotent. */
  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  private async closeOnce(): Promise<void> {
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

  private listen(caller: WaitingCall, signal: AbortSignal | undefined): void {
    if (!signal) return;
    const leave = () => {
      if (this.state.withdraw(caller)) this.fail(caller, 'cancelled', signal.reason);
      this.steps.soon();
    };
    caller.stopListening = onAbort(signal, leave);
  }

  /** Carries out all that the state decides now. @returns when to do so again, on the monotonic clock */
  private step(): number {
    const nowMs = monotonicMs();
    for (const command of this.state.next(nowMs)) this.carryOut(command);
    this.makeWay(nowMs);
    if (!this.state.isTrying) for (const resolve of this.tried.splice(0)) resolve();
    if (!this.isUsed) for (const resolve of this.left.splice(0)) resolve();
    if (this.state.isEmpty && !this.isUsed) {
      // a lost permit's call may go on
      this.emptied();
      this.whenLeft();
    }
    return Math.min(this.state.dueMs(), this.admitted.dueMs);
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
    // A caller that gives way is served later.
    if (!(error instanceof GivesWay)) this.source.metrics.poolWait(this.resource, caller.sinceMs, outcome);
    caller.reject(error);
  }

  private acquired(permit: Permit, place?: Place): void {
    const held = this.state.acquired(permit, monotonicMs(), place);
    this.held.add(held);
    const { signal } = permit;
    const lose = () => {
      this.calls.get(held)?.lose(signal.reason);
      this.gone(held);
      this.whenFewer();
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
    this.whenFewer();
    await releaseOrWarn(held.permit);
    this.gone(held);
  }

  private async look(): Promise<void> {
    const others = await this.source.look();
    this.admitted.looked((others?.tickets ?? []).map(priorityOf));
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

/** After this many steps in a row, the event loop gets a turn, so that calls which do nothing delay no renewal. */
const STEPS_IN_A_ROW = 100;

/** Runs steps: one soon after events, for all events that have come by then, and one whenever a step is due. One timer serves all. */
class Steps {
  private isComing = false;
  private row = 0;
  private timer: NodeJS.Timeout | undefined;
  private timerMs = Number.POSITIVE_INFINITY;

  /** Runs outside the caller's async context, so its token, trace and deadline do not leak into the pool's calls. */
  private readonly run = AsyncResource.bind(() => this.runOne());

  /** @param step returns when it is due again, on the monotonic clock */
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
    // A timer that fires too early does no harm, and setting it again for each call would cost more.
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
