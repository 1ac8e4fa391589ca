import type { ResolvedSemaphore } from '../../shared/options';
import {
  acquireInOrder,
  acquireUntilEnough,
  HeldSet,
  partsInOrder,
  permitsByEntry,
  releaseInReverse,
  type SetPart,
  ticketPartOf,
  type Wanted,
  withoutHeld,
} from '../../shared/permit-set';
import { again } from '../../shared/request';
import { monotonicMs, pause, soon } from '../server/clock';
import { LineFullError, lossOver, PermitLostError, PermitTimeoutError } from '../server/errors';
import { onAbort } from '../server/on-abort';
import { type AcquireContext, acquireGrant } from './acquire';
import type { Grant } from './grant';
import { heldHere } from './hold';
import { clientRequestOf, type ResolvedClientAcquire } from './options';
import { Permit } from './permit';
import { releaseOrWarn } from './release';

/** A semaphore of a set, with the context that the acquires of its client share. */
export interface SemaphoreOfSet extends ResolvedSemaphore {
  readonly context: AcquireContext;
}

/** The set that a caller wants. */
export type WantedSet = readonly Wanted<SemaphoreOfSet>[];

/**
 * Permits of several resources, acquired together and released together. Each renews itself, and has its own lease and fencing
 * token.
 *
 * @example
 * ```ts
 * import { acquireAll, SemaphoreClient } from 'temporal-semaphore/client';
 *
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3 });
 * const licences = new SemaphoreClient(client, 'licences', { capacity: 5 });
 * await using set = await acquireAll([gpus, licences]);
 * const [gpu, licence] = set.permits;
 * await train(gpu.slot, licence.slot, { signal: set.signal });
 * ```
 */
export class PermitSet<Permits extends readonly (Permit | Permit[])[] = readonly Permit[]> extends HeldSet<
  Permit,
  Permits
> {
  private readonly stop = new AbortController();

  /** @internal Made by `acquireAll`. */
  constructor(permits: Permits, inOrder: readonly Permit[]) {
    super(permits, inOrder);
    for (const { ownSignal: signal } of inOrder) onAbort(signal, () => this.stop.abort(signal.reason));
  }

  /**
   * Aborts when the first permit is lost; its reason is that permit's `PermitLostError`. As with `permit.signal`, reading it
   * checks the clock.
   */
  get signal(): AbortSignal {
    for (const { signal } of this.inOrder) if (signal.aborted) this.stop.abort(signal.reason);
    return this.stop.signal;
  }

  /** @internal Releases all at once. A release that fails only warns. */
  async releaseOrWarn(): Promise<void> {
    await releaseInReverse(this.inOrder.map((permit) => ({ release: () => releaseOrWarn(permit) })));
  }

  /** @internal Runs `fn` as the holder of these permits. */
  async holding<T>(fn: () => T | Promise<T>): Promise<T> {
    return await heldHere.run(this.inOrder, fn);
  }
}

/** Runs `fn` under a set, as `withPermits` says. */
export async function withSet<T>(
  wanted: WantedSet,
  acquire: ResolvedClientAcquire,
  fn: (permits: (Permit | Permit[])[], signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const set = await acquireSet(wanted, acquire);
  const [done] = await Promise.allSettled([set.holding(() => fn([...set.permits], set.signal))]);
  let loss: unknown = set.signal.aborted ? set.signal.reason : undefined;
  await set.releaseOrWarn();
  loss ??= await set.confirmLoss();
  if (loss) throw done.status === 'rejected' ? lossOver(loss, done.reason) : loss;
  if (done.status === 'rejected') throw done.reason;
  return done.value;
}

/** Acquires a set, as `acquireAll` says. Closing one of its clients ends the wait. */
export async function acquireSet(
  wanted: WantedSet,
  acquire: ResolvedClientAcquire,
): Promise<PermitSet<(Permit | Permit[])[]>> {
  const closed = new AbortController();
  const closings = new Set(wanted.map(({ semaphore }) => semaphore.context.closing));
  const stops = [onAbort(acquire.signal, () => closed.abort(acquire.signal.reason))];
  try {
    for (const closing of closings) stops.push(closing.whenClosed((error) => closed.abort(error)));
    return await acquireParts(wanted, { ...acquire, signal: closed.signal });
  } finally {
    for (const stop of stops) stop();
  }
}

async function acquireParts(
  wanted: WantedSet,
  acquire: ResolvedClientAcquire,
): Promise<PermitSet<(Permit | Permit[])[]>> {
  const parts = partsInOrder(wanted, acquire);
  heldHere.checkSelfDeadlock(
    parts.map(({ semaphore }) => semaphore),
    acquire,
  );
  const { signal, timeoutMs } = acquire;
  const [sinceMs, fromMs] = [Date.now(), monotonicMs()];
  const wait = async (ms: number, resource: string) => {
    const leftMs = fromMs + timeoutMs - monotonicMs();
    await pause(Math.min(ms, leftMs), signal);
    signal.throwIfAborted();
    if (leftMs <= ms) throw new PermitTimeoutError(resource, timeoutMs);
  };
  const isMaxHold = (error: unknown) => error instanceof PermitLostError && error.how === 'timed-out';
  const once = () => acquireOnce(parts, acquire, sinceMs, fromMs);
  const held = await acquireUntilEnough(once, wait, Math.random, isMaxHold);
  const { permits, inOrder } = permitsByEntry(
    wanted,
    held,
    (own, behind, index) => new Permit(own, { key: wanted[index]?.key, behind }),
  );
  return new PermitSet(permits, inOrder);
}

type Part = SetPart<SemaphoreOfSet>;

/** How long after its deadline a set may wait for the release of the permits that it had … */
const LATE_RELEASE_MS = 800;

/** … and how long it may wait in any case. */
const RELEASE_MS = 500;

/** A loss ends the wait for the others, as the caller's own signal does. */
async function acquireOnce(parts: readonly Part[], options: ResolvedClientAcquire, sinceMs: number, fromMs: number) {
  const { signal } = options;
  const waiting = new AbortController();
  const stopHearing = onAbort(signal, () => waiting.abort(signal.reason));
  try {
    const acquire = async (part: Part, had: readonly Grant[], isAgain: boolean) => {
      const grant = await acquirePart(part, had, { ...options, signal: waiting.signal }, sinceMs, fromMs, isAgain);
      grant.whenLost((error) => waiting.abort(error));
      return grant;
    };
    // The set is complete by then, so a release that can't be confirmed is no reason to give it back.
    const confirm = () => waiting.signal.throwIfAborted();
    return await acquireInOrder(parts, acquire, confirm, releaseOrWarn, (grants) => {
      // In an outage, the releases take a lease: they go on, and the caller gets its error in time.
      const lateMs = fromMs + options.timeoutMs + LATE_RELEASE_MS - monotonicMs();
      return soon(releaseInReverse(grants), Math.max(0, Math.min(RELEASE_MS, lateMs)));
    });
  } finally {
    stopHearing();
  }
}

async function acquirePart(
  part: Part,
  had: readonly Grant[],
  acquire: ResolvedClientAcquire,
  sinceMs: number,
  fromMs: number,
  isAgain: boolean,
): Promise<Grant> {
  const { semaphore, resource, key } = part;
  const { context } = semaphore;
  const request = clientRequestOf(
    withoutHeld(semaphore, had),
    { ...acquire, key },
    { ...context.server.caller, sinceMs },
    fromMs,
    ticketPartOf(part, had),
  );
  try {
    return await acquireGrant(context, isAgain ? again(request) : request);
  } catch (error) {
    if (error instanceof LineFullError) throw new LineFullError(resource, error.maxWaiting, error.superseded);
    if (!(error instanceof PermitTimeoutError) || error.resource === resource) throw error;
    // The accumulator's permit is missing because another caller accumulates this resource.
    throw new PermitTimeoutError(resource, error.timeoutMs, { unpolled: error.unpolled, cause: error.cause });
  }
}
