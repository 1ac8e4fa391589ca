import type { Duration } from '@temporalio/common';
import { earliest } from '../../shared/lease';
import type { ResolvedSemaphore } from '../../shared/options';
import {
  acquireInOrder,
  besideTheLine,
  byEntry,
  partsInOrder,
  rankOf,
  releaseInReverse,
  type SetPart,
  type Wanted,
  withoutHeld,
} from '../../shared/permit-set';
import { monotonicMs, pause } from '../clock';
import { LineFullError, PermitLostError, PermitTimeoutError } from '../errors';
import type { Request } from '../options';
import { checkSelfDeadlock, holding } from './held-here';
import type { Permit } from './permit';
import { releaseOrWarn } from './release-or-warn';

/** A pool, and who acquires of it. */
export interface ClientPool extends ResolvedSemaphore {
  readonly taskQueue: string;
  readonly client: { acquireFor(request: Request): Promise<Permit> };
}

/** A set that is wanted. */
export type WantedSet = readonly Wanted<ClientPool>[];

type SetRequest = Omit<Request, 'semaphore'>;

/**
 * Permits of several resources, acquired together and released together. Each renews itself, and has a lease and a fencing
 * token of its own.
 */
export class PermitSet<Permits extends readonly (Permit | Permit[])[] = readonly Permit[]> implements AsyncDisposable {
  private readonly loss = new AbortController();

  /** @internal Made by {@link acquireAll}. */
  constructor(
    /** In the order of the caller's entries. */
    readonly permits: Permits,
    private readonly inOrder: readonly Permit[],
  ) {
    for (const permit of inOrder) whenLost(permit, (reason) => this.loss.abort(reason));
  }

  /**
   * Aborts when the first permit is lost; its reason is that permit's `PermitLostError`. As with `permit.signal`, reading it
   * checks the clock.
   */
  get signal(): AbortSignal {
    for (const { signal } of this.inOrder) if (signal.aborted) this.loss.abort(signal.reason);
    return this.loss.signal;
  }

  /** @internal The same set, with its permits in one list. */
  flat(): PermitSet {
    return new PermitSet(this.permits.flat() as Permit[], this.inOrder);
  }

  /** Renews each permit. @returns when the first of the leases ends now @throws PermitLostError when one has ended */
  async renew(lease?: Duration): Promise<Date> {
    return earliest(await Promise.all(this.inOrder.map((permit) => permit.renew(lease))));
  }

  /** Releases all permits, in the reverse of the order in which they were acquired. Idempotent. Throws as a permit's `release` does, after trying each. */
  async release(): Promise<void> {
    await releaseInReverse(this.inOrder);
  }

  /** @internal After the release: how the first of them was lost before it, although nobody had heard of that. */
  async lateLoss(): Promise<PermitLostError | undefined> {
    let loss: PermitLostError | undefined;
    for (const permit of this.inOrder) loss ??= await permit.lateLoss();
    return loss;
  }

  /** `await using set = await acquireAll([…])` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** Runs `fn` under a set, as `withPermits` says. */
export async function underSet<T>(
  wanted: WantedSet,
  request: SetRequest,
  fn: (permits: (Permit | Permit[])[], signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { set, inOrder } = await acquireParts(wanted, request);
  const [done] = await Promise.allSettled([holding(inOrder, () => fn([...set.permits], set.signal))]);
  let loss: unknown = set.signal.aborted ? set.signal.reason : undefined;
  await releaseInReverse(inOrder.map((permit) => ({ release: () => releaseOrWarn(permit) })));
  loss ??= await set.lateLoss();
  if (loss) throw loss;
  if (done.status === 'rejected') throw done.reason;
  return done.value;
}

/** Acquires a set, as `acquireAll` says. */
export async function acquireSet(wanted: WantedSet, request: SetRequest): Promise<PermitSet<(Permit | Permit[])[]>> {
  return (await acquireParts(wanted, request)).set;
}

/** A loss ends the wait for the others, as the caller's own signal does. */
async function acquireParts(wanted: WantedSet, request: SetRequest) {
  const parts = partsInOrder(wanted, request);
  checkSelfDeadlock(parts, request);
  const { signal, since, timeoutMs } = request;
  const wait = async (ms: number, resource: string) => {
    const leftMs = since.monotonicMs + timeoutMs - monotonicMs();
    await pause(Math.min(ms, leftMs), signal);
    signal.throwIfAborted();
    if (leftMs <= ms) throw new PermitTimeoutError(resource, timeoutMs);
  };
  const isMaxHold = (error: unknown) => error instanceof PermitLostError && error.how === 'timed-out';
  return await besideTheLine(() => acquireOnce(wanted, parts, request), wait, Math.random, isMaxHold);
}

async function acquireOnce(wanted: WantedSet, parts: readonly SetPart<ClientPool>[], request: SetRequest) {
  const { signal } = request;
  const waiting = new AbortController();
  const over = new AbortController();
  const abort = () => waiting.abort(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { signal: over.signal });
  try {
    const acquire = async (part: SetPart<ClientPool>, had: readonly Permit[]) => {
      const permit = await acquirePart(part, had, { ...request, signal: waiting.signal });
      whenLost(permit, (reason) => waiting.abort(reason));
      return permit;
    };
    // The set is complete by then, so a release that can't be confirmed is no reason to give it back.
    const held = await acquireInOrder(parts, acquire, () => waiting.signal.throwIfAborted(), releaseOrWarn);
    const inOrder = held.map(({ permit }) => permit);
    return { set: new PermitSet(byEntry(wanted, held), inOrder), inOrder };
  } finally {
    over.abort();
  }
}

async function acquirePart(
  { pool, resource, key, permits }: SetPart<ClientPool>,
  had: readonly Permit[],
  request: SetRequest,
): Promise<Permit> {
  try {
    const semaphore = { ...pool, slots: withoutHeld(pool, had) };
    return await pool.client.acquireFor({ ...request, key, permits, semaphore, rank: rankOf(pool.resource, had) });
  } catch (error) {
    if (error instanceof LineFullError) throw new LineFullError(resource, error.maxWaiting);
    if (!(error instanceof PermitTimeoutError) || error.resource === resource) throw error;
    // The accumulator's permit is missing because somebody else accumulates this resource.
    throw new PermitTimeoutError(resource, error.timeoutMs, { unpolled: error.unpolled, cause: error.cause });
  }
}

function whenLost({ signal }: Permit, tell: (reason: unknown) => void): void {
  if (signal.aborted) tell(signal.reason);
  else signal.addEventListener('abort', () => tell(signal.reason), { once: true });
}
